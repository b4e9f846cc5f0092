/* Checks tokens and targets before kernels use them as row numbers. */
#include "kernels/shape.h"

pst_status pst_call_check_index(const pst_call *call, const int32_t *index, uint64_t n,
                                uint64_t limit, int ignore) {
    for (uint64_t i = 0; i < n; i++) {
        if (index[i] < 0 && ignore) continue;
        if (index[i] < 0 || (uint64_t)index[i] >= limit)
            return pst_fail(PST_EINPUT, "%s: index %d at position %llu is outside of [0, %llu)",
                            call->node->name, index[i], (unsigned long long)i,
                            (unsigned long long)limit);
    }
    return PST_OK;
}
