/* What each rank publishes at start-up: version, run file, and where it runs. */
#ifndef PST_GROUP_IDENTITY_H
#define PST_GROUP_IDENTITY_H
#include "base/world.h"
#include <sched.h>

/* Where a rank runs: host name and affinity mask, before the rank is bound. */
typedef struct {
    char host[64];
    cpu_set_t mask; /* empty: unknown */
} pst_rank_place;

typedef struct {
    char version[80];
    uint64_t run; /* hash of the lines of the run file that must agree */
    pst_rank_place place;
} pst_identity;

/* Publish this rank's identity before a fence, and read another rank's after the fence. EINPUT:
 * that rank runs another version of penstock. */
pst_status pst_identity_put(pst_world *world, const pst_identity *mine);
pst_status pst_identity_get(pst_world *world, uint32_t rank, pst_identity *identity);
/* Reads the place that `rank` has published, after a fence. */
pst_status pst_identity_place(pst_world *world, uint32_t rank, pst_rank_place *place);
/* "0.1.0 (build 5d0e...)". Static text. */
const char *pst_identity_version(void);
#endif
