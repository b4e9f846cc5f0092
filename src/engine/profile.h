/* Taking a profile (`penstock profile`): profile.c starts the ranks, joins and writes; profile_rank.c measures; what a
 * run makes of it is in profile_use.c. */
#ifndef PST_ENGINE_PROFILE_H
#define PST_ENGINE_PROFILE_H
#include "engine/bench.h"
#include "engine/prepare.h"
#include "partition/profile.h"

enum { PST_PROFILE_CHOICES = 16, PST_PROFILE_OVERRIDES = 64 };

typedef struct pst_profile_take {
    const char *run;                 /* the run file, and overrides that come before those of the measurement */
    const char *const *override;
    size_t n_override;
    uint32_t threads;                /* of a rank */
    const char *device;              /* whose rows compute */
    uint32_t n_micro_batch, n_tensor;
    uint32_t micro_batch[PST_PROFILE_CHOICES], tensor[PST_PROFILE_CHOICES];
    double seconds;                  /* for each, alone and busy */
} pst_profile_take;

/* Suite "profile": every rank trains the run's model by itself, first number 0 alone, then all; *found is that one's
 * rows, [{"kind", "text", "size", "busy", "ns"}]. */
pst_status pst_profile_rank(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
/* Suites "messages" (two ranks) and "exchanges" (all ranks are a tensor group), profile_link.c; *found as above. */
pst_status pst_profile_messages(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
pst_status pst_profile_exchanges(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
/* profile_use.c. parallel.profile, once p has its graph: p->profile and costs, NULL where none is given. EINPUT: of
 * another model or machine, unless parallel.profile_force. */
pst_status pst_profile_open_for(pst_prepared *p);
/* EINPUT: the profile, of parallel.profile, is of another machine, precision or model; see above. kind: a cluster's, which
 * the profile is of (costs.h); NULL: it is to be this machine's. */
pst_status pst_profile_suits(const pst_profile *profile, const pst_device_kind *kind, const pst_config *config,
                             uint32_t threads, pst_processors processors, const pst_graph *graph, int quiet);
/* Warns of ranks that would have to take turns on the processors. */
void pst_profile_warn(const pst_profile *profile, const pst_config *config, uint32_t n_rank, uint32_t threads);
/* Messages and the flush, once lists and layout are there. */
void pst_profile_time(pst_prepared *p);
/* What a profile of this machine says it is of. */
void pst_profile_here(const pst_config *config, uint32_t threads, pst_profile_head *head);
#endif
