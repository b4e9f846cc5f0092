/* What ranks of world `tcp` put between two fences, as it travels: rank, length of key (u32 each),
 * length of value (u64), key, value; and so on. On a connection the bytes of a parcel follow their
 * number (u64). */
#ifndef PST_COMM_WORLD_PARCEL_H
#define PST_COMM_WORLD_PARCEL_H
#include "comm/world/board.h"

/* In place of a parcel's length: the sender leaves, and the remaining bits say how many bytes tell
 * why; 0: in good order. */
#define PST_PARCEL_FAREWELL (UINT64_C(1) << 63)

/* All 0: empty. */
typedef struct {
    uint8_t *at;
    uint64_t bytes, room;
} pst_parcel;

/* ENOMEM; EINPUT when it becomes larger than 1 GiB. */
pst_status pst_parcel_add(pst_parcel *p, uint32_t rank, const char *key, const void *value,
                          uint64_t bytes);
pst_status pst_parcel_append(pst_parcel *p, const pst_parcel *other);
/* Puts the contents on the board. from: the only rank they may come from, UINT32_MAX any.
 * EINTERNAL: it makes no sense. */
pst_status pst_parcel_open(const pst_parcel *p, uint32_t from, uint32_t size, pst_board *board);
pst_status pst_parcel_write(const pst_parcel *p, int fd);
/* Appends what arrives. EPEER: the other end is gone, or says farewell. */
pst_status pst_parcel_read(pst_parcel *p, int fd);
void pst_parcel_clear(pst_parcel *p);
#endif
