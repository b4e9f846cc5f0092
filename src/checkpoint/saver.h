/* Writes shards in the background: two threads write, one reads back and does what comes before and
 * after. They belong to a process, not to a rank: with transport `self` they write the shards of
 * all ranks, one after the other. Every function is for one thread, the one that trains. */
#ifndef PST_CHECKPOINT_SAVER_H
#define PST_CHECKPOINT_SAVER_H
#include "checkpoint/shard.h"

enum { PST_SAVER_WRITERS = 2, PST_SAVER_THREADS = PST_SAVER_WRITERS + 1 };

/* Runs on a thread of the saver. */
typedef pst_status (*pst_saver_task)(void *arg);

typedef struct pst_saver pst_saver;
/* Shards are borrowed. Starts the threads and gets their buffers: a piece each. */
pst_status pst_saver_open(pst_shard *const *shard, uint32_t n, pst_saver **saver);
/* Ends what is under way as soon as its operation on the disk returns; what was written of it is
 * removed. */
void pst_saver_close(pst_saver *s);

/* The shards have begun (pst_shard_begin): runs `before`, writes and verifies them, and when all
 * went well runs `after`. Either may be NULL. Not while it is busy. */
void pst_saver_write(pst_saver *s, pst_saver_task before, pst_saver_task after, void *arg);
/* Only a task. Not while it is busy. */
void pst_saver_run(pst_saver *s, pst_saver_task task, void *arg);
int pst_saver_busy(pst_saver *s);
/* Waits for the end of what is under way; its status, and its message as this thread's error. */
pst_status pst_saver_wait(pst_saver *s);
/* How long the last pst_saver_write took until all shards were verified. */
uint64_t pst_saver_ns(const pst_saver *s);
#endif
