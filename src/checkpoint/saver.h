/* Writes shards in the background: two threads write; one reads back what was written, and runs a
 * task before and after the writing. The threads belong to a process, not to a rank: with transport
 * `self` they write the shards of all ranks in turn. Every function is for one thread, the one that
 * trains. */
#ifndef PST_CHECKPOINT_SAVER_H
#define PST_CHECKPOINT_SAVER_H
#include "checkpoint/shard.h"

enum { PST_SAVER_WRITERS = 2, PST_SAVER_THREADS = PST_SAVER_WRITERS + 1 };

/* Runs on a thread of the saver. */
typedef pst_status (*pst_saver_task)(void *arg);

typedef struct pst_saver pst_saver;
/* Shards are borrowed. Starts the threads and allocates a buffer of pst_shard_piece bytes for
 * each. */
pst_status pst_saver_open(pst_shard *const *shard, uint32_t n, pst_saver **saver);
/* Stops the running job after its current disk operation, removes the job's files, ends the threads
 * and frees the saver. */
void pst_saver_close(pst_saver *s);

/* After pst_shard_begin of all shards: runs `before`, writes and verifies the shards, and if all
 * succeeded runs `after`. Either may be NULL. Not while busy. */
void pst_saver_write(pst_saver *s, pst_saver_task before, pst_saver_task after, void *arg);
/* Runs only a task on a thread of the saver. Not while busy. */
void pst_saver_run(pst_saver *s, pst_saver_task task, void *arg);
int pst_saver_busy(pst_saver *s);
/* Waits for the running job; returns the job's status and sets the job's message as this thread's
 * error. */
pst_status pst_saver_wait(pst_saver *s);
/* Nanoseconds that the last pst_saver_write took until all shards were verified. */
uint64_t pst_saver_ns(const pst_saver *s);
#endif
