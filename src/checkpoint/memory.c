/* Opens a checkpoint whose shards are memory files: the state of an elastic run. */
#include "checkpoint/parts.h"
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
