/* What ranks of world `tcp` put between two fences, as it travels: rank, length of key (u32 each),
 * length of value (u64), key, value; and so on. On a connection the bytes of a message follow their
 * number (u64). */
#ifndef PST_COMM_WORLD_MESSAGE_H
#define PST_COMM_WORLD_MESSAGE_H
#include "comm/world/store.h"

/* In place of a message's length: the sender leaves, and the remaining bits say how many bytes tell
 * why; 0: in good order. */
#define PST_MESSAGE_FAREWELL (UINT64_C(1) << 63)

/* All 0: empty. */
typedef struct {
    uint8_t *at;
    uint64_t bytes, room;
} pst_message;

/* ENOMEM; EINPUT when it becomes larger than 1 GiB. */
pst_status pst_message_add(pst_message *p, uint32_t rank, const char *key, const void *value,
                           uint64_t bytes);
pst_status pst_message_append(pst_message *p, const pst_message *other);
/* Puts the contents on the store. from: the only rank they may come from, UINT32_MAX any.
 * EINTERNAL: it makes no sense. */
pst_status pst_message_open(const pst_message *p, uint32_t from, uint32_t size, pst_store *store);
pst_status pst_message_write(const pst_message *p, int fd);
/* Appends what arrives. EPEER: the other end is gone, or says farewell. */
pst_status pst_message_read(pst_message *p, int fd);
void pst_message_clear(pst_message *p);
#endif
