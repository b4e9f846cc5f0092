/* Publishes what a collective does and waits for, for other ranks to read (base/position.h). */
#include "comm/collective/run.h"

void pst_coll_publish(pst_coll *c, pst_activity activity) {
    PST_POSITION_SET(c->position, coll_wait, 0);
    PST_POSITION_SET(c->position, activity, (uint32_t)activity);
    PST_POSITION_SET(c->position, since_ns, pst_monotonic_ns());
    pst_position_move(c->position);
}

void pst_coll_publish_start(pst_coll *c) {
    PST_POSITION_SET(c->position, coll_kind, (uint32_t)c->kind);
    PST_POSITION_SET(c->position, coll_root, c->root);
    PST_POSITION_SET(c->position, coll_bytes, c->bytes);
    PST_POSITION_SET(c->position, n_coll, PST_POSITION_GET(c->position, n_coll) + 1);
    uint64_t site = pst_position_site(c->position, c->file, c->function, c->line);
    pst_position_op(c->position, site ? site
                                      : UINT64_C(1) << 63 | (uint64_t)c->kind << 40 |
                                            (c->bytes & 0xffffffff) << 3 | 7);
    pst_coll_publish(c, PST_AT_COLLECTIVE);
}

uint64_t pst_coll_publish_post(pst_coll *c, const pst_transfer *t) {
    uint64_t message = pst_position_message(t->kind == PST_TRANSFER_RECV, t->peer, t->seq);
    uint64_t n = PST_POSITION_GET(c->position, n_coll_post);
    PST_POSITION_SET(c->position, coll_post[n % PST_POSITION_POSTS], message);
    PST_POSITION_SET(c->position, n_coll_post, n + 1);
    pst_position_move(c->position);
    return message;
}
