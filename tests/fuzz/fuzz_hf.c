/* Any text as a Hugging Face config.json: an error that names the file, or sizes that a model
 * can have, and tokens that end a text. */
#include "checkpoint/hf.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static void check_bert(const char *text, size_t size, const pst_bert *b) {
    char **name;
    uint32_t n;
    expect(b->intermediate > 0 && b->norm_eps > 0 && b->labels != 1);
    expect(pst_hf_parse_labels(text, size, "fuzz", &name, &n) == PST_OK && n == b->labels);
    for (uint32_t i = 0; name && i < n; i++) free(name[i]);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_model_config c = {0};
    pst_hf_ends ends = {0};
    if (pst_hf_parse_ends((const char *)data, size, "fuzz", &ends) == PST_OK)
        for (uint32_t i = 0; i < ends.n; i++) expect(i < PST_HF_ENDS && ends.id[i] >= 0);
    else expect(ends.n == 0 && strncmp(pst_error(), "fuzz:", 5) == 0);
    if (pst_hf_parse_config((const char *)data, size, "fuzz", &c) != PST_OK) {
        expect(c.layers == 0 && strncmp(pst_error(), "fuzz:", 5) == 0);
        return 0;
    }
    expect(c.layers > 0 && c.heads > 0 && c.channels % c.heads == 0 && c.context > 0 &&
           c.vocabulary > 0);
    expect(c.dropout >= 0 && c.dropout < 1);
    if (strcmp(c.kind, "gpt") == 0) return 0;
    if (strcmp(c.kind, "bert") == 0) {
        check_bert((const char *)data, size, &c.bert);
        return 0;
    }
    expect(strcmp(c.kind, "llama") == 0 && c.llama.kv_heads > 0 &&
           c.heads % c.llama.kv_heads == 0 && c.llama.rope.theta > 1 && c.llama.norm_eps > 0);
    return 0;
}
