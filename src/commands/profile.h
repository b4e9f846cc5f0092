/* Taking a profile (`penstock profile`): profile.c starts the ranks, joins and writes;
 * profile_rank.c measures; what a run makes of it is in profile_use.c. */
#ifndef PST_COMMANDS_PROFILE_H
#define PST_COMMANDS_PROFILE_H
#include "commands/bench.h"
#include "partition/cost/profile.h"
#include "prepare/prepare.h"

enum { PST_PROFILE_CHOICES = 16, PST_PROFILE_OVERRIDES = 64 };

typedef struct pst_profile_take {
    const char *run; /* the run file, and overrides that come before those of the measurement */
    const char *const *override;
    size_t n_override;
    uint32_t threads;   /* of a rank */
    const char *device; /* whose rows compute */
    uint32_t n_micro_batch, n_tensor;
    uint32_t micro_batch[PST_PROFILE_CHOICES], tensor[PST_PROFILE_CHOICES];
    double seconds; /* for each, alone and busy */
} pst_profile_take;

/* Suite "profile": every rank trains the run's model by itself, first number 0 alone, then all;
 * *found is that one's rows, [{"kind", "text", "size", "busy", "ns"}]. */
pst_status pst_profile_rank(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
/* Suites "messages" (two ranks) and "exchanges" (all ranks are a tensor group), profile_link.c;
 * *found as above. */
pst_status pst_profile_messages(const pst_bench *b, pst_world *world, pst_transport *t,
                                json_t **found);
pst_status pst_profile_exchanges(const pst_bench *b, pst_world *world, pst_transport *t,
                                 json_t **found);
#endif
