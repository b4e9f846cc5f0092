/* The members of a group on one host agree to share memory (outbox.h): a collective of two
 * all-gathers, first where the files are, then who has mapped them all. Where one could not, the
 * group goes on without. */
#include "comm/collective/run.h"

enum { MOST_MEMBERS = 16 };

pst_status pst_coll_share(pst_coll *c) {
    if (c->n == 1 || c->n > MOST_MEMBERS || c->outboxes || (c->hosts && c->hosts->n_host > 1))
        return PST_OK;
    PST_TRY(pst_coll_outboxes_open(c->n, c->me, &c->outboxes));
    pst_coll_outboxes *o = c->outboxes;
    return pst_coll_start(c, PST_COLL_ALL_GATHER, o->all, sizeof *o->all, PST_F32, 0);
}

/* One of the two all-gathers is done. */
pst_status pst_coll_share_next(pst_coll *c) {
    pst_coll_outboxes *o = c->outboxes;
    if (!o->agreeing) {
        pst_coll_outboxes_map(o);
        o->agreeing = 1;
        return pst_coll_start(c, PST_COLL_ALL_GATHER, o->mapped, 1, PST_F32, 0);
    }
    c->shared = pst_coll_outboxes_settle(o);
    if (!c->shared) {
        pst_coll_outboxes_close(o);
        c->outboxes = NULL;
    }
    return PST_OK;
}
