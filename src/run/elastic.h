/* Elastic runs: when a rank or host dies, the other processes go on; and the number of ranks can be
 * changed at the end of a step. Each rank's part of the run's
 * state lies in two memory files that outlive it (comm/world/elastic.h): STEP reads one and writes
 * the other (pst_memory_map.twin), so nothing is copied, and the state before a step is complete
 * until all ranks have the next one. After a death the processes close everything, join the world
 * of the next epoch with a layout for fewer ranks, read the newest state that is complete (also the
 * dead rank's part, like a checkpoint), and repeat the step. Weights do not depend on the number of
 * pipeline stages (docs/layouts.md), the only degree that changes. */
#ifndef PST_RUN_ELASTIC_H
#define PST_RUN_ELASTIC_H
#include "comm/launch/launch.h"
#include "run/trainer.h"

typedef struct pst_elastic pst_elastic;

/* Before ranks start. is_wanted: the options or the configuration ask for an elastic run. check:
 * EINPUT if this run is to be elastic and cannot be, or is not and has keys of elastic runs.
 * launch: starts the ranks and waits for their end (pst_launch_local_elastic). */
int pst_elastic_is_wanted(const pst_config *c, const pst_train_options *o);
pst_status pst_elastic_needs_ranks(void); /* EINPUT: the run has one process */
pst_status pst_elastic_check(const pst_config *c, const pst_train_options *o);
pst_status pst_elastic_launch(const pst_config *c, const pst_train_options *o, uint32_t n_rank,
                              pst_launch_end *end);
/* The same on the hosts of a file (pst_launch_hosts). */
pst_status pst_elastic_launch_hosts(const pst_config *c, const pst_train_options *o,
                                    pst_hosts *hosts, uint32_t n_rank, pst_launch_end *end);
/* The least and the most ranks of an elastic run. */
uint32_t pst_elastic_min(const pst_config *c);
uint32_t pst_elastic_max(const pst_config *c);
/* Tries layouts, and fills ranks_of[from..to] (comm/world/elastic.h); ranks_of[from - 1] is known.
 * others: 1: the ranks are on other hosts. EINPUT, ENOMEM: `to` ranks are impossible, or do not fit
 * the memory: pst_error() says why. */
pst_status pst_elastic_find_ranks(const pst_config *c, uint32_t from, uint32_t to, int others,
                                  uint32_t *ranks_of);

/* A process of an elastic job: 1: this is one. */
int pst_elastic_is_process(void);
/* Trains in this process, from epoch to epoch, until the run has ended. EPEER: the job ends because
 * of a failure that the launcher reports. */
pst_status pst_elastic_train(const pst_config *c, const pst_train_options *o);

/* For the steps of a run; t->elastic may be NULL, then these do nothing. */
/* Monotonic clock when the run began: of an elastic one (else NULL), the first epoch. */
uint64_t pst_elastic_began_ns(const pst_elastic *e);
/* 1: goes on after a death; *state (may be NULL): 1: from a state in memory. */
int pst_elastic_goes_on(const pst_trainer *t, int *state);
/* The configuration with which the run began; NULL for NULL. */
const pst_config *pst_elastic_config(const pst_elastic *e);
/* The folder of the run. find: 1: an earlier epoch has created it. */
int pst_elastic_find_folder(const pst_trainer *t, char folder[PST_TRAINER_FOLDER]);
void pst_elastic_note_folder(const pst_trainer *t);
/* Reads weights, optimizer state and counters from memory. Collective. */
pst_status pst_elastic_read(pst_trainer *t);
/* The weights were set since began_ns: this depends on their size, unlike the rest of the set-up.
 */
void pst_elastic_moved(const pst_trainer *t, uint64_t began_ns);
/* When the weights are set: says if the run has gone back, because a host was lost with the only
 * newer state. */
void pst_elastic_went_back(pst_trainer *t);
/* Behind pst_setup_prepare. Rank 0 says that the run goes on, and how long that will take. */
void pst_elastic_say(const pst_trainer *t);
/* Of this process's requests (stop.h) those that concern all ranks, and PST_STOP_CHANGE: with
 * SIGTERM to this rank alone, it leaves before the next step, if the others can go on without it.
 */
uint64_t pst_elastic_requests(const pst_trainer *t, uint64_t requests);
/* Before anything is written to the state of this process's rank: moves it to the memory files.
 * Collective. ENOMEM. */
pst_status pst_elastic_share(pst_trainer *t);
/* Before each step: the present state is complete on this rank. ENOMEM. */
pst_status pst_elastic_commit(pst_trainer *t);
/* Behind it, when other ranks are to go on (t->changes): this process has left its epoch when the
 * function returns. Collective. */
pst_status pst_elastic_depart(pst_trainer *t);
/* After each step: notes how long it took; rank 0 reports a recovery in the metrics. */
void pst_elastic_report(pst_trainer *t);
/* All ranks have finished, and none is missed from now on. Collective. EPEER: a rank has died
 * before. */
pst_status pst_elastic_finish(pst_trainer *t);
#endif
