/* What a run's predictions take from a profile of the machine (partition/cost/profile.h), and
 * whether it is of this machine. */
#ifndef PST_PREPARE_PROFILE_USE_H
#define PST_PREPARE_PROFILE_USE_H
#include "partition/cost/profile.h"
#include "prepare/prepare.h"

enum { PST_PROFILE_MOST_RANKS = 64 }; /* that measure at once */

/* parallel.profile, once p has its graph: p->profile and costs, NULL where none is given. EINPUT:
 * of another model or machine, unless parallel.profile_force. */
pst_status pst_profile_open_for(pst_prepared *p);
/* What a profile is to be used for. */
typedef struct {
    const pst_config *config;    /* with parallel.profile */
    const pst_device_kind *kind; /* a cluster's, which the profile is of (costs.h); NULL: it is to
                                    be this machine's */
    uint32_t threads;
    pst_processors processors;
    int quiet;
} pst_profile_purpose;
/* EINPUT: the profile is of another machine, precision or model; see above. */
pst_status pst_profile_suits(const pst_profile *profile, const pst_profile_purpose *purpose,
                             const pst_graph *graph);
/* Warns of ranks that would have to take turns on the processors. */
void pst_profile_warn(const pst_profile *profile, const pst_config *config, uint32_t n_rank,
                      uint32_t threads);
/* Messages, once lists are there; not where a cluster file says how long they take. */
void pst_profile_time_messages(pst_prepared *p);
/* What a profile of this machine says it is of. */
void pst_profile_here(const pst_config *config, uint32_t threads, pst_profile_head *head);
#endif
