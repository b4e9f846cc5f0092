/* The hash of all weights; it does not depend on which rank holds them. */
#include "base/hash.h"
#include "checkpoint/checkpoint.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t pst_weights_hash_one(const pst_param *param, const float *weight) {
    return pst_hash64(weight, pst_param_elements(param) * sizeof *weight, 0);
}

pst_status pst_weights_hash(const pst_graph *graph, const uint64_t *hash, uint64_t *out) {
    uint32_t *order = calloc(graph->n_param + (size_t)1, sizeof *order);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    pst_status status = PST_ENOMEM;
    if (order && stream) {
        pst_graph_param_order(graph, order);
        for (uint32_t i = 0; i < graph->n_param; i++) {
            const pst_param *p = &graph->param[order[i]];
            if (p->frozen) continue;
            fprintf(stream, "%s F32 [", p->name);
            for (uint32_t k = 0; k < p->n_dim; k++)
                fprintf(stream, "%s%" PRIu64, k ? "," : "", p->dim[k]);
            fprintf(stream, "] %016" PRIx64 "\n", hash[order[i]]);
        }
        if (!ferror(stream)) status = PST_OK;
    }
    if (stream && fclose(stream)) status = PST_ENOMEM;
    if (status == PST_OK) *out = pst_hash64(text, bytes, 0);
    else pst_fail(status, "no memory for the hash of the weights");
    free(text);
    free(order);
    return status;
}
