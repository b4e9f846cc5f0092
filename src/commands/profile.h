/* Measuring a profile (`penstock profile`): profile.c starts the ranks, merges their results and
 * writes the profile; profile_rank.c and profile_link.c measure. src/prepare/profile_use.c uses
 * profiles. */
#ifndef PST_COMMANDS_PROFILE_H
#define PST_COMMANDS_PROFILE_H
#include "commands/bench.h"
#include "partition/cost/profile.h"
#include "prepare/prepare.h"

enum { PST_PROFILE_CHOICES = 16, PST_PROFILE_OVERRIDES = 64 };

typedef struct pst_profile_request {
    const char *run; /* path of the run file; its overrides are applied before those of the
                        measurement */
    const char *const *override;
    size_t n_override;
    uint32_t threads;   /* CPU threads per rank */
    const char *device; /* the device that computes */
    uint32_t n_micro_batch, n_tensor;
    uint32_t micro_batch[PST_PROFILE_CHOICES], tensor[PST_PROFILE_CHOICES];
    double seconds; /* seconds to measure each micro-batch size and tensor degree, on one rank alone
                       and on all ranks at once */
} pst_profile_request;

/* Suite "profile": every rank trains the run's model on its own, first rank 0 alone, then all at
 * once; *found has rank 0's rows, [{"kind", "text", "size", "busy", "ns"}]. */
pst_status pst_profile_rank(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
/* Suites "messages" (two ranks) and "exchanges" (all ranks form a tensor group), profile_link.c;
 * *found as above. */
pst_status pst_profile_messages(const pst_bench *b, pst_world *world, pst_transport *t,
                                json_t **found);
pst_status pst_profile_exchanges(const pst_bench *b, pst_world *world, pst_transport *t,
                                 json_t **found);
#endif
