/* One rank's file of a checkpoint, written from the memory that training goes on in. The file is
 * cut into pieces; any number of threads (PST_SHARD_THREADS at most) take one after the other: a
 * piece is hashed, then written past the page cache straight from that memory where addresses and
 * file system allow it, else through a buffer. Whoever wants to change a parameter asks first
 * whether its bytes are still needed; tensors are taken in the order of the entries, so the first
 * is free long before the last. Another thread reads back what was written, a piece or two behind.
 *
 * One round: pst_shard_begin; then pst_shard_write until it returns 0, in every writing thread, and
 * pst_shard_verify until it returns 0, in one; when all are through, pst_shard_end. Then another
 * round may begin. */
#ifndef PST_CHECKPOINT_SHARD_H
#define PST_CHECKPOINT_SHARD_H
#include "checkpoint/checkpoint.h"

enum { PST_SHARD_THREADS = 4, PST_SHARD_PIECE = 2 << 20, PST_SHARD_ALIGN = 4096 };

typedef struct pst_shard pst_shard;
/* Plans the file; entries and their memory are borrowed until it is closed. piece: bytes that are
 * taken at a time, a multiple of PST_SHARD_ALIGN; 0: PST_SHARD_PIECE, less for a small file. */
pst_status pst_shard_open(const pst_optim_row *rule, const pst_ckpt_entry *entry, uint32_t n,
                          uint64_t piece, pst_shard **shard);
void pst_shard_close(pst_shard *s);
/* Before the first round: the entries' memory is read with this alone, by any of the threads that
 * write. */
typedef pst_status (*pst_shard_read)(void *arg, void *to, const void *from, uint64_t bytes);
void pst_shard_read_with(pst_shard *s, pst_shard_read fetch, void *arg);
uint64_t pst_shard_piece(const pst_shard *s); /* bytes of a piece, at most */
/* Room for one piece, which each of the threads below brings along (that of a shard with larger
 * pieces does, too); NULL: no memory. */
void *pst_shard_room(const pst_shard *s);
void pst_shard_room_free(const pst_shard *s, void *room);

/* From now on the entries' memory stays as it is until it is released. hurry_ns: when that should
 * be; if the disk is too slow for it, the rest goes to the page cache, which takes it at the
 * memory's rate, and to the disk from there. 0: whenever. The path is copied. */
void pst_shard_begin(pst_shard *s, const char *path, uint64_t hurry_ns);
/* Takes and writes one piece; the last one to be written brings header and sync. 0: none was left,
 * or it has failed. */
int pst_shard_write(pst_shard *s, void *room);
/* Waits for one piece to be written and compares what the disk has of it; at the end the header. 0:
 * that was all, or it has failed. */
int pst_shard_verify(pst_shard *s, void *room);
/* Ends the round with a failure, this thread's error, unless it has failed before. Any thread, at
 * any time of it. */
void pst_shard_fail(pst_shard *s, pst_status status);
/* How the round went; after a failure the file is gone. ENOMEM: storage; EINPUT: "TENSOR is not
 * finite". */
pst_status pst_shard_end(pst_shard *s);

/* 1 when entry i may be changed: not in a round, or its bytes are taken. Waits for that, wait_ns at
 * most. */
int pst_shard_released(pst_shard *s, uint32_t i, uint64_t wait_ns);
#endif
