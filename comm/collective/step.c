/* What the algorithms have in common: segments, slots, and steps that cover a part of the
 * memory. */
#include "comm/collective/algorithm.h"

uint32_t pst_coll_log2(uint32_t n) {
    uint32_t log = 0;
    while (log < 32 && UINT64_C(1) << log < n) log++;
    return log;
}

uint64_t pst_coll_total(const pst_coll_run *r) { return r->offset[r->n] - r->offset[0]; }

uint64_t pst_coll_largest(const pst_coll_run *r) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->offset[i + 1] - r->offset[i] > largest) largest = r->offset[i + 1] - r->offset[i];
    return largest;
}

void pst_coll_split(pst_coll_run *r, uint64_t bytes, uint64_t uses) {
    r->n_segment = bytes ? bytes / r->segment + (bytes % r->segment != 0) : 1;
    r->slot_bytes = bytes < r->segment ? (bytes + 63) / 64 * 64 : r->segment;
    r->n_slot = uses && r->slot_bytes ? PST_COLL_SCRATCH / r->slot_bytes : 1;
    if (r->n_slot > PST_COLL_MAX_SLOTS) r->n_slot = PST_COLL_MAX_SLOTS;
    if (uses && r->n_slot > uses) r->n_slot = uses;
}

static void cover(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint64_t begin,
                  uint64_t end, uint64_t segment) {
    step->at = begin + segment * r->segment;
    uint64_t left = step->at < end ? end - step->at : 0;
    step->bytes = left < r->segment ? left : r->segment;
    step->op = step->bytes ? op : PST_COLL_SKIP;
}

void pst_coll_cover_part(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint32_t part,
                         uint64_t segment) {
    cover(r, step, op, r->offset[part], r->offset[part + 1], segment);
}

void pst_coll_cover_all(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op,
                        uint64_t segment) {
    cover(r, step, op, r->offset[0], r->offset[r->n], segment);
}

void pst_coll_use_slot(const pst_coll_run *r, pst_coll_step *step, uint64_t use) {
    step->in_slot = 1;
    step->slot = use % r->n_slot;
}
