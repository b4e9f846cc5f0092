/* See options.h. */
#include "data/options.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

pst_status pst_options_check(const pst_data_config *c) {
    if (strcmp(c->tokenizer, "byte"))
        return pst_fail(PST_EINPUT, "data.tokenizer is %s; expected byte", c->tokenizer);
    if (!(c->validation >= 0 && c->validation < 1))
        return pst_fail(PST_EINPUT, "data.validation is %g; expected a fraction from 0 to below 1",
                        c->validation);
    if (c->context == 0) return pst_fail(PST_EINPUT, "model.context is 0; expected at least 1");
    return PST_OK;
}

uint64_t pst_options_hash(const pst_data_config *c, uint64_t hash) {
    hash = pst_hash64(&c->validation, sizeof c->validation, hash);
    hash = pst_hash64(&c->context, sizeof c->context, hash);
    hash = pst_hash64(&c->seed, sizeof c->seed, hash);
    return pst_hash64(c->tokenizer, strlen(c->tokenizer), hash);
}

void pst_options_describe(const pst_file_list *list, char *out, size_t size) {
    if (list->n == 1) snprintf(out, size, "%s", list->file[0].path);
    else
        snprintf(out, size, "%s and %u more file%s", list->file[0].path, list->n - 1,
                 list->n == 2 ? "" : "s");
}
