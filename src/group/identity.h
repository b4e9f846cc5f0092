/* The identity of a rank, exchanged before anything relies on it. */
#ifndef PST_GROUP_IDENTITY_H
#define PST_GROUP_IDENTITY_H
#include "base/world.h"
#include <sched.h>

/* Where a rank runs, before anything is bound. */
typedef struct {
    char host[64];
    cpu_set_t mask; /* empty: unknown */
} pst_rank_place;

typedef struct {
    char version[80];
    uint64_t run; /* hash of the lines of the run file that must agree */
    pst_rank_place place;
} pst_identity;

/* put before a fence, get after it; EINPUT: that rank runs another version. */
pst_status pst_identity_put(pst_world *world, const pst_identity *mine);
pst_status pst_identity_get(pst_world *world, uint32_t rank, pst_identity *identity);
/* The place that a rank has published. */
pst_status pst_identity_place(pst_world *world, uint32_t rank, pst_rank_place *place);
/* "0.1.0 (build 5d0e...)": static. */
const char *pst_identity_version(void);
#endif
