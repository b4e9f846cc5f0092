/* See wrapper.h. */
#include "base/wrapper.h"

static pst_transport *inner_of(pst_transport *t) { return ((pst_wrapper *)t)->inner; }

pst_wrapper pst_wrapper_of(pst_transport *inner, const pst_transport_ops *ops) {
    return (pst_wrapper){
        {.ops = ops, .clock = inner->clock, .rank = inner->rank, .size = inner->size}, inner};
}

uint32_t pst_wrapper_progress(pst_transport *t) {
    pst_transport *inner = inner_of(t);
    return inner->ops->progress(inner);
}

uint64_t pst_wrapper_next_ns(pst_transport *t) {
    pst_transport *inner = inner_of(t);
    return inner->ops->next_ns ? inner->ops->next_ns(inner) : PST_NEVER;
}

pst_status pst_wrapper_arm(pst_transport *t, int *fd) {
    pst_transport *inner = inner_of(t);
    return inner->ops->arm
               ? inner->ops->arm(inner, fd)
               : pst_fail(PST_EINPUT, "the inner transport has no file descriptor to wait on");
}

void pst_wrapper_abort(pst_transport *t) {
    pst_transport *inner = inner_of(t);
    inner->ops->abort(inner);
}
