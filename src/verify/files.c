/* Verification against a file of an earlier one. */
#include "verify/reference.h"
#include "verify/verify.h"

static int given(const char *text) { return text && *text; }

pst_status pst_verify_against(pst_verifying *v) {
    const pst_verify_options *o = v->options;
    const uint32_t parts = v->promise.parts;
    pst_reference reference;
    char why[160];
    if (given(o->save)) PST_TRY(pst_reference_save(o->save, v->config_one, parts, v->of_one));
    if (!given(o->against)) return PST_OK;
    PST_TRY(pst_reference_load(o->against, v->config_one, parts, v->of_one, &reference));
    pst_comparison c = {.first = {.found = 0}};
    const pst_compare_options bits = {.end_step = UINT64_MAX, .weights_after = 1};
    pst_compare_options near = pst_promise_near(&v->promise, 0);
    near.end_step = 1;
    snprintf(why, sizeof why, "the file is from %.100s; first step", reference.made_by);
    pst_check *check =
        reference.same ? pst_check_add(&v->table, "one rank, against the file", "bitwise equal")
                       : pst_check_add_near(&v->table, "one rank, against the file", why, &near);
    pst_compare(v->of_one, reference.recording, reference.same ? &bits : &near, &c);
    pst_check_compared(check, &c);
    pst_recording_close(reference.recording);
    return PST_OK;
}
