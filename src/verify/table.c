/* See table.h. */
#include "verify/table.h"
#include "base/plural.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

static const char *const group_name[] = {"inputs", "activations", "gradients", "scalars",
                                         "weights"};
static const char *const result_name[] = {"passed", "failed", "skipped"};

pst_check *pst_check_add(pst_check_table *t, const char *name, const char *promise, ...) {
    pst_check *c = t->check + (t->n < PST_CHECKS ? t->n++ : PST_CHECKS - 1);
    va_list args;
    *c = (pst_check){.result = PST_CHECK_PASSED};
    snprintf(c->name, sizeof c->name, "%s", name);
    va_start(args, promise);
    vsnprintf(c->promise, sizeof c->promise, promise, args);
    va_end(args);
    return c;
}

pst_check *pst_check_add_near(pst_check_table *t, const char *name, const char *why,
                              const pst_compare_options *near) {
    char tolerance[PST_COMPARE_TEXT];
    pst_compare_print(near, tolerance);
    return pst_check_add(t, name, "bitwise equality not promised: %s; %s", why, tolerance);
}

void pst_check_fail(pst_check *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->first, sizeof c->first, format, args);
    va_end(args);
    c->result = PST_CHECK_FAILED;
}

void pst_check_skip(pst_check *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->detail, sizeof c->detail, format, args);
    va_end(args);
    c->result = PST_CHECK_SKIPPED;
}

void pst_check_compared(pst_check *check, const pst_comparison *c) {
    int used = 0;
    double worst = 0;
    uint64_t n = pst_comparison_tensors(c), different = pst_comparison_different(c);
    check->counts = *c;
    for (int g = 0; g < PST_GROUP_COUNT; g++) {
        if (c->worst[g] > worst) worst = c->worst[g];
        if (c->tensors[g])
            used += snprintf(check->detail + used, sizeof check->detail - (size_t)used,
                             "%s%" PRIu64 " %s", used ? ", " : "", c->tensors[g], group_name[g]);
    }
    if (worst > 0)
        snprintf(check->detail + used, sizeof check->detail - (size_t)used,
                 "; largest relative difference %.1e", worst);
    if (!n) pst_check_fail(check, "the two recordings have no tensor in common");
    if (!different) return;
    char text[PST_DIFFERENCE_TEXT];
    pst_difference_print(&c->first, text);
    pst_check_fail(check, "%" PRIu64 " of %" PRIu64 " tensors differ; the first: %.900s", different,
                   n, text);
}

uint32_t pst_check_count(const pst_check_table *t, pst_check_result result) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) n += t->check[i].result == result;
    return n;
}

void pst_check_print(const pst_check *c, FILE *out) {
    fprintf(out, "%-8s%-40s  %s", result_name[c->result], c->name, c->promise);
    if (*c->detail) fprintf(out, "%s%s", *c->promise ? ": " : "", c->detail);
    if (*c->first) fprintf(out, "\n        %s", c->first);
    fputc('\n', out);
    fflush(out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *difference_json(const pst_difference *d) {
    const pst_record *r = &d->at;
    json_t *j =
        json_pack("{s:I, s:s, s:s, s:i, s:s, s:i, s:s}", "step", (json_int_t)r->step + 1,
                  "operator", r->node, "tensor", r->tensor, "rank", (int)r->rank, "run", d->run,
                  "expected_rank", (int)d->expected.rank, "expected_run", d->expected_run);
    if (r->micro != PST_NONE)
        json_object_set_new(j, "micro_batch", json_integer((json_int_t)r->micro));
    if (d->index == UINT64_MAX) return j;
    json_object_set_new(j, "index", json_integer((json_int_t)d->index));
    json_object_set_new(j, "value", json_real(d->value));
    json_object_set_new(j, "expected", json_real(d->expected_value));
    return j;
}

static json_t *check_json(const pst_check *c) {
    json_t *j = json_pack("{s:s, s:s, s:s, s:s}", "check", c->name, "result",
                          result_name[c->result], "promise", c->promise, "detail", c->detail);
    json_object_set_new(j, "tensors", json_integer((json_int_t)pst_comparison_tensors(&c->counts)));
    json_object_set_new(j, "different",
                        json_integer((json_int_t)pst_comparison_different(&c->counts)));
    if (*c->first) json_object_set_new(j, "failure", json_string(c->first));
    if (c->counts.first.found) json_object_set_new(j, "first", difference_json(&c->counts.first));
    return j;
}

pst_status pst_check_json(const pst_check_table *t, double seconds, FILE *out) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < t->n; i++) json_array_append_new(all, check_json(t->check + i));
    int n[] = {(int)pst_check_count(t, PST_CHECK_PASSED), (int)pst_check_count(t, PST_CHECK_FAILED),
               (int)pst_check_count(t, PST_CHECK_SKIPPED)};
    json_t *j =
        json_pack("{s:s, s:f, s:i, s:i, s:i, s:o}", "verify", n[1] ? "failed" : "passed", "seconds",
                  seconds, "passed", n[0], "failed", n[1], "skipped", n[2], "checks", all);
    int bad = !j || json_dumpf(j, out, JSON_INDENT(2)) != 0 || fputc('\n', out) == EOF;
    json_decref(j);
    return bad ? pst_fail(PST_ENOMEM, "cannot write the result") : PST_OK;
}
