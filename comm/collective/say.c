/* What a collective says to whoever watches this rank (base/position.h). */
#include "comm/collective/run.h"

void pst_coll_say(pst_coll *c, pst_activity activity) {
    PST_POSITION_SET(c->at, coll_wait, 0);
    PST_POSITION_SET(c->at, activity, (uint32_t)activity);
    PST_POSITION_SET(c->at, since_ns, pst_monotonic_ns());
    pst_position_move(c->at);
}

void pst_coll_say_start(pst_coll *c) {
    PST_POSITION_SET(c->at, coll_kind, (uint32_t)c->kind);
    PST_POSITION_SET(c->at, coll_root, c->root);
    PST_POSITION_SET(c->at, coll_bytes, c->bytes);
    PST_POSITION_SET(c->at, n_coll, PST_POSITION_GET(c->at, n_coll) + 1);
    uint64_t site = pst_position_site(c->at, c->file, c->function, c->line);
    pst_position_op(c->at, site ? site
                                : UINT64_C(1) << 63 | (uint64_t)c->kind << 40 |
                                      (c->bytes & 0xffffffff) << 3 | 7);
    pst_coll_say(c, PST_AT_COLLECTIVE);
}

uint64_t pst_coll_say_post(pst_coll *c, const pst_transfer *t) {
    uint64_t message = pst_position_message(t->kind == PST_TRANSFER_RECV, t->peer, t->seq);
    uint64_t n = PST_POSITION_GET(c->at, n_coll_post);
    PST_POSITION_SET(c->at, coll_post[n % PST_POSITION_POSTS], message);
    PST_POSITION_SET(c->at, n_coll_post, n + 1);
    pst_position_move(c->at);
    return message;
}
