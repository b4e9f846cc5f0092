/* Opens a checkpoint whose shards are memory files: the state of an elastic run. */
#include "checkpoint/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_ckpt_open_memory(const pst_ckpt_memory *m, const pst_ckpt_info *info,
                                const char *config, const pst_graph *graph, pst_ckpt **out) {
    static const char name[] = "the state in memory";
    pst_ckpt *c = NULL;
    char *text = NULL;
    uint64_t config_hash;
    PST_TRY(pst_ckpt_index_of(m, info, config, graph, &text));
    pst_status status = pst_ckpt_index_parse(text, strlen(text), name, &c, &config_hash);
    free(text);
    PST_TRY(status);
    c->unhashed = 1;
    c->path = strdup(PST_CKPT_DESCRIPTORS);
    c->config = strdup(config);
    status = c->path && c->config ? pst_ckpt_open_shards(c)
                                  : pst_no_memory("to read the state in memory");
    if (status == PST_OK) *out = c;
    else pst_ckpt_close(c);
    return status;
}

/* Whole parts are read. */
static uint64_t far_bytes_of(const pst_ckpt *c, const uint8_t *is_far, const char *name,
                             uint64_t from, uint64_t to) {
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, name);
    uint64_t bytes = 0;
    for (uint32_t k = 0; t && k < t->n_part; k++) {
        const pst_ckpt_part *part = &t->part[k];
        const int sliced = part->slice.held == PST_HELD_PART;
        if (!is_far[part->file] || (!sliced && (part->from >= to || part->to <= from))) continue;
        bytes += (part->to - part->from) * pst_dtype_bytes(t->dtype);
    }
    return bytes;
}

uint64_t pst_ckpt_far_bytes(const pst_ckpt *c, const uint8_t *is_far, const pst_graph *graph,
                            const pst_optim_row *rule, const uint64_t *const range[2]) {
    char name[PST_NAME_MAX + 16];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < graph->n_param; i++) {
        const pst_param *param = graph->param + i;
        const uint64_t from = range[0][i], to = range[1][i];
        if (from >= to) continue;
        bytes += far_bytes_of(c, is_far, param->name, from, to);
        for (uint32_t k = 0; k < pst_optim_states(rule, param); k++) {
            snprintf(name, sizeof name, "%s.%s", param->name, rule->state_name[k]);
            bytes += far_bytes_of(c, is_far, name, from, to);
        }
    }
    return bytes;
}
