/* Verification against a file of an earlier one. */
#include "base/file.h"
#include "verify/verify.h"
#include <stdlib.h>
#include <sys/stat.h>

static int given(const char *text) { return text && *text; }

static pst_reference_of reference_of(const pst_verifying *v) {
    return (pst_reference_of){.config = v->config_one,
                              .small = &v->shape.small,
                              .parts = v->promise.parts,
                              .data = v->data,
                              .graph = pst_graph_hash(v->prepared_one->whole)};
}

/* Whether the file of --save can be written. */
static pst_status check_save(const char *path) {
    struct stat st;
    char *beside;
    FILE *f;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return pst_fail(PST_EINPUT, "--save %s: this is a folder; expected a file", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return PST_OK; /* a pipe, for example */
    PST_TRY(pst_file_create_beside(path, &beside, &f));
    fclose(f);
    remove(beside);
    free(beside);
    return PST_OK;
}

pst_status pst_verify_files(pst_verifying *v) {
    const pst_verify_options *o = v->options;
    const pst_reference_of of = reference_of(v);
    if (given(o->save)) PST_TRY(check_save(o->save));
    return given(o->against) ? pst_reference_load(o->against, &of, &v->reference) : PST_OK;
}

pst_status pst_verify_against(pst_verifying *v) {
    const pst_verify_options *o = v->options;
    const pst_reference_of of = reference_of(v);
    const pst_reference *reference = &v->reference;
    char why[160];
    if (given(o->save)) PST_TRY(pst_reference_save(o->save, &of, v->of_one));
    if (!reference->recording) return PST_OK;
    pst_comparison c = {.first = {.found = 0}};
    const pst_compare_options bits = {.end_step = UINT64_MAX, .weights_after = 1};
    pst_compare_options near = pst_promise_near(&v->promise, 0);
    near.end_step = 1;
    snprintf(why, sizeof why, "the file is from %.100s; first step", reference->made_by);
    pst_check *check =
        reference->same ? pst_check_add(&v->table, "one rank, against the file", "bitwise equal")
                        : pst_check_add_near(&v->table, "one rank, against the file", why, &near);
    pst_compare(v->of_one, reference->recording, reference->same ? &bits : &near, &c);
    pst_check_compared(check, &c);
    return PST_OK;
}
