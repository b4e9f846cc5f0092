/* The members of a group on one host set up shared memory (outbox.h) in two all-gathers: first the
 * location of each file, then who has mapped them all. If one member could not, the group goes on
 * without shared memory. */
#include "comm/collective/run.h"

enum { MAX_MEMBERS = 16 };

pst_status pst_coll_share(pst_coll *c) {
    if (c->n == 1 || c->n > MAX_MEMBERS || c->outboxes || (c->hosts && c->hosts->n_host > 1))
        return PST_OK;
    PST_TRY(pst_coll_outboxes_open(c->n, c->me, &c->outboxes));
    pst_coll_outboxes *o = c->outboxes;
    return pst_coll_start(c, PST_COLL_ALL_GATHER, o->all, sizeof *o->all, PST_F32, 0);
}

/* Called when one of the two all-gathers is done. */
pst_status pst_coll_share_next(pst_coll *c) {
    pst_coll_outboxes *o = c->outboxes;
    if (!o->agreeing) {
        pst_coll_outboxes_map(o);
        o->agreeing = 1;
        return pst_coll_start(c, PST_COLL_ALL_GATHER, o->mapped, 1, PST_F32, 0);
    }
    c->shared = pst_coll_outboxes_finish(o);
    if (!c->shared) {
        pst_coll_outboxes_close(o);
        c->outboxes = NULL;
    }
    return PST_OK;
}
