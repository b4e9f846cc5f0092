/* The steps of a tape by chunk, so that building each chunk need not go through all of them. */
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>

pst_status pst_chunk_steps_open(const pst_cut *cut, pst_chunk_steps *x) {
    const uint32_t n_step = cut->tape->n_step;
    *x = (pst_chunk_steps){calloc(cut->n_chunk + (size_t)2, sizeof *x->first),
                           calloc(n_step + (size_t)1, sizeof *x->step)};
    if (!x->first || !x->step)
        return pst_fail(PST_ENOMEM, "no memory to divide %u steps among chunks", n_step);
    for (uint32_t s = 0; s < n_step; s++) x->first[pst_cut_step_chunk(cut, s) + 2]++;
    for (uint32_t c = 0; c < cut->n_chunk; c++) x->first[c + 2] += x->first[c + 1];
    for (uint32_t s = 0; s < n_step; s++) x->step[x->first[pst_cut_step_chunk(cut, s) + 1]++] = s;
    return PST_OK;
}

void pst_chunk_steps_close(pst_chunk_steps *x) {
    free(x->first);
    free(x->step);
}
