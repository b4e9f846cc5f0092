/* Which passes of a chunk are in instruction lists: those with operators, and those that complete
 * gradients of the chunk's parameters. So a chunk without trained parameters at or before it has no
 * backward pass, and one without any has no W. */
#ifndef PST_PIPELINE_COMPILE_PASSES_H
#define PST_PIPELINE_COMPILE_PASSES_H
#include "pipeline/compile/cut.h"

static inline int pst_cut_has_pass(const pst_cut *cut, uint32_t chunk, uint32_t opcode) {
    const uint32_t n = cut->graph ? cut->use_first[cut->graph->n_param] : 0;
    if (cut->chunk[chunk].program[opcode].n_step) return 1;
    for (uint32_t u = 0; u < n && (opcode == PST_OP_W || opcode == PST_OP_BW); u++)
        if (cut->use_chunk[u] == chunk) return 1;
    return 0;
}
#endif
