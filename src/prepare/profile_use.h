/* Uses a profile (partition/cost/profile.h) for a run's predictions, and checks whether it was
 * measured on this machine. */
#ifndef PST_PREPARE_PROFILE_USE_H
#define PST_PREPARE_PROFILE_USE_H
#include "partition/cost/profile.h"
#include "prepare/prepare.h"

enum { PST_PROFILE_MOST_RANKS = 64 }; /* number of ranks that measure at the same time */

/* Loads parallel.profile and sets p->profile (NULL: none is given) and p->costs; p->graph must be
 * set. EINPUT: the profile is of another model or machine and parallel.profile_force is not set. */
pst_status pst_profile_open_for(pst_prepared *p);
/* The purpose for which a profile is checked. */
typedef struct {
    const pst_config *config; /* has parallel.profile set */
    /* kind of the cluster's devices on which the profile was measured (costs.h); NULL: it must have
     * been measured on this machine */
    const pst_device_kind *kind;
    uint32_t threads;
    pst_processors processors;
    int quiet;
} pst_profile_purpose;
/* EINPUT: the profile is of another machine, precision or model. */
pst_status pst_profile_suits(const pst_profile *profile, const pst_profile_purpose *purpose,
                             const pst_graph *graph);
/* Warns if n_rank ranks of `threads` threads would share processors: the profile was measured
 * without sharing. */
void pst_profile_warn(const pst_profile *profile, const pst_config *config, uint32_t n_rank,
                      uint32_t threads);
/* Sets the durations of messages in p's instruction lists; does nothing if a cluster file describes
 * the links. */
void pst_profile_time_messages(pst_prepared *p);
/* Fills *head with the description of this machine, as a profile measured now would have it. */
void pst_profile_here(const pst_config *config, uint32_t threads, pst_profile_head *head);
#endif
