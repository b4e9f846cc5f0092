/* One rank's file of a checkpoint, written from the memory that training continues to use. The file
 * is divided into pieces (pst_shard_piece); threads (at most PST_SHARD_THREADS) take one after the
 * other: a piece is hashed, then written with direct I/O straight from that memory if addresses and
 * file system allow it, else through a buffer. Before a parameter is changed, the trainer asks
 * whether its bytes are still needed; tensors are read in the order of the entries, so the first
 * one is released long before the last. Another thread reads back what was written, a piece or two
 * behind.
 *
 * One round: pst_shard_begin; then pst_shard_write until it returns 0, in every writing thread,
 * and pst_shard_verify until it returns 0, in one thread; when all have finished, pst_shard_end.
 * Then another round may begin. */
#ifndef PST_CHECKPOINT_SHARD_H
#define PST_CHECKPOINT_SHARD_H
#include "checkpoint/checkpoint.h"

enum { PST_SHARD_THREADS = 4, PST_SHARD_PIECE = 2 << 20, PST_SHARD_ALIGN = 4096 };

typedef struct pst_shard pst_shard;
/* Plans the file; the entries and their memory are borrowed until pst_shard_close. piece: bytes per
 * piece, a multiple of PST_SHARD_ALIGN; 0: PST_SHARD_PIECE, or less for a small file. */
pst_status pst_shard_open(const pst_optim_row *rule, const pst_ckpt_entry *entry, uint32_t n,
                          uint64_t piece, pst_shard **shard);
void pst_shard_close(pst_shard *s);
/* Call before the first round. From then on the writing threads read the entries' memory only
 * through `fetch`. */
typedef pst_status (*pst_shard_read)(void *arg, void *to, const void *from, uint64_t bytes);
void pst_shard_read_with(pst_shard *s, pst_shard_read fetch, void *arg);
/* Between rounds: entry i, which neither it nor those before it have states, is now in `memory`. */
void pst_shard_place(pst_shard *s, uint32_t i, const void *memory);
uint64_t pst_shard_piece(const pst_shard *s); /* largest number of bytes in a piece */
/* Allocates a buffer for one piece; each thread that calls pst_shard_write or pst_shard_verify
 * passes a buffer of its own, which may be from a shard with larger pieces. NULL: no memory. */
void *pst_shard_buffer(const pst_shard *s);
void pst_shard_buffer_free(const pst_shard *s, void *buffer);

/* A header for tensors that stay where they are, in a memory file: byte `at` of the file is at
 * address `base`. Hashes are those of the last round, or 0. The caller frees *text. EINTERNAL: the
 * header does not fit before `at`. */
pst_status pst_shard_header(const pst_shard *s, const uint8_t *base, uint64_t at, char **text,
                            size_t *bytes);
/* Between rounds: what was at [from, from + bytes) is now at `to`. */
void pst_shard_move(pst_shard *s, const uint8_t *from, uint64_t bytes, const uint8_t *to);

/* From now on the entries' memory must not change until it is released. deadline_ns: nanoseconds
 * from now in which all entries should be released; if the disk is too slow for that, the rest is
 * written to the page cache and reaches the disk later. 0: no deadline. The path is copied. */
void pst_shard_begin(pst_shard *s, const char *path, uint64_t deadline_ns);
/* Takes and writes one piece; the last call also writes the header and syncs. Returns 0 if no piece
 * was left or the round has failed. */
int pst_shard_write(pst_shard *s, void *buffer);
/* Waits until one piece is written and compares it with the bytes on the disk; at the end also the
 * header. Returns 0 if everything is verified or the round has failed. */
int pst_shard_verify(pst_shard *s, void *buffer);
/* Makes the round fail with this thread's error, unless it has already failed. Any thread may call
 * it during the round. */
void pst_shard_fail(pst_shard *s, pst_status status);
/* The result of the round; after a failure the file has been removed. ENOMEM: storage; EINPUT:
 * "TENSOR is not finite". */
pst_status pst_shard_end(pst_shard *s);

/* Returns 1 if entry i may be changed, because no round is active or all bytes of the entry were
 * read; waits at most wait_ns for that. */
int pst_shard_released(pst_shard *s, uint32_t i, uint64_t wait_ns);
#endif
