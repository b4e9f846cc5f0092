/* Uses a profile of the machine (partition/cost/profile.h) for a run's predictions, and checks
 * whether it is of this machine. */
#ifndef PST_PREPARE_PROFILE_USE_H
#define PST_PREPARE_PROFILE_USE_H
#include "partition/cost/profile.h"
#include "prepare/prepare.h"

enum { PST_PROFILE_MOST_RANKS = 64 }; /* ranks that measure at once */

/* Loads parallel.profile, once p has its graph: sets p->profile and costs; NULL if none is given.
 * EINPUT: it is of another model or machine, unless parallel.profile_force is set. */
pst_status pst_profile_open_for(pst_prepared *p);
/* The purpose for which a profile is checked. */
typedef struct {
    const pst_config *config; /* has parallel.profile set */
    /* the cluster's device that the profile is of (costs.h); NULL: it has to be this machine */
    const pst_device_kind *kind;
    uint32_t threads;
    pst_processors processors;
    int quiet;
} pst_profile_purpose;
/* EINPUT: the profile is of another machine, precision or model. */
pst_status pst_profile_suits(const pst_profile *profile, const pst_profile_purpose *purpose,
                             const pst_graph *graph);
/* Warns if ranks would have to share processors. */
void pst_profile_warn(const pst_profile *profile, const pst_config *config, uint32_t n_rank,
                      uint32_t threads);
/* Sets the durations of messages, once there are lists; not if a cluster file has them. */
void pst_profile_time_messages(pst_prepared *p);
/* The description of this machine that a profile would have. */
void pst_profile_here(const pst_config *config, uint32_t threads, pst_profile_head *head);
#endif
