/* The values that ranks of world `tcp` publish between two fences, as bytes on the wire: rank,
 * length of key (u32 each), length of value (u64), key, value; repeated. On a connection, the
 * length of the message (u64) comes first. */
#ifndef PST_COMM_WORLD_MESSAGE_H
#define PST_COMM_WORLD_MESSAGE_H
#include "comm/world/store.h"

/* Bit in a message's length: the sender leaves the job. The remaining bits are the length of the
 * reason that follows; 0: a normal exit. */
#define PST_MESSAGE_LEAVE (UINT64_C(1) << 63)

/* A growing buffer; all 0: empty. */
typedef struct {
    uint8_t *at;
    uint64_t bytes, capacity;
} pst_message;

/* Appends a value, or another message. ENOMEM; EINPUT: the message would exceed 1 GiB. */
pst_status pst_message_add(pst_message *p, uint32_t rank, const char *key, const void *value,
                           uint64_t bytes);
pst_status pst_message_append(pst_message *p, const pst_message *other);
/* Parses the values and copies them to the store. from: the only rank whose values are accepted,
 * UINT32_MAX: any; size: number of ranks. EINTERNAL: the message is malformed. */
pst_status pst_message_open(const pst_message *p, uint32_t from, uint32_t size, pst_store *store);
pst_status pst_message_write(const pst_message *p, int fd);
/* Reads one message from the socket and appends it. EPEER: the connection is lost, or the other end
 * has left the job. */
pst_status pst_message_read(pst_message *p, int fd);
void pst_message_clear(pst_message *p);
#endif
