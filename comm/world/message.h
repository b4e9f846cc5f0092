/* The values that ranks of world `tcp` publish between two fences, as bytes on the wire: rank,
 * length of key (u32 each), length of value (u64), key, value; repeated. On a connection, the
 * length of the message (u64) comes first. */
#ifndef PST_COMM_WORLD_MESSAGE_H
#define PST_COMM_WORLD_MESSAGE_H
#include "comm/world/store.h"

/* Set in place of a message's length: the sender leaves. The remaining bits are the length of the
 * reason that follows; 0: a normal exit. */
#define PST_MESSAGE_LEAVE (UINT64_C(1) << 63)

/* All 0: empty. */
typedef struct {
    uint8_t *at;
    uint64_t bytes, capacity;
} pst_message;

/* ENOMEM; EINPUT when it becomes larger than 1 GiB. */
pst_status pst_message_add(pst_message *p, uint32_t rank, const char *key, const void *value,
                           uint64_t bytes);
pst_status pst_message_append(pst_message *p, const pst_message *other);
/* Copies the contents to the store. from: the only rank that the values may come from, UINT32_MAX:
 * any. EINTERNAL: the message is malformed. */
pst_status pst_message_open(const pst_message *p, uint32_t from, uint32_t size, pst_store *store);
pst_status pst_message_write(const pst_message *p, int fd);
/* Appends one message from the socket. EPEER: the other end is gone, or has left. */
pst_status pst_message_read(pst_message *p, int fd);
void pst_message_clear(pst_message *p);
#endif
