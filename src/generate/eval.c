/* `penstock eval`: a trained model on texts, last words and multiple choice. */
#include "generate/eval.h"
#include "base/log.h"
#include "base/sized.h"
#include "metrics/evaluate.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_SETS = 1024 };

typedef struct {
    const pst_eval_options *o;
    pst_source source;
    pst_eval_scope scope; /* of words and choices */
    FILE *out;
    uint64_t n; /* sets so far */
} evaluation;

/* --- output ----------------------------------------------------------------------------------- */

static const char *kind_of(const pst_eval_result *r) {
    static const char *const name[] = {"text", "labels", "words", "choices"};
    return name[r->kind];
}

static double ratio(double a, uint64_t n) { return n ? a / (double)n : (double)NAN; }

/* A number, or null. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static pst_status cannot_write(void) {
    return pst_fail(PST_ENOMEM, "cannot write the results: %s", strerror(errno));
}

/* NaN: the samples are no pairs of segments. */
static double pair_loss(const pst_eval_result *r) {
    return r->pairs ? ratio(r->pair_nats, r->n) : (double)NAN;
}

static double loss_of(const pst_eval_result *r) {
    return ratio(r->nats, r->tokens) + (r->pairs ? pair_loss(r) : 0);
}

/* NaN: it is not known. */
static double accuracy_of(const pst_eval_result *r) {
    const int known = r->kind == PST_EVAL_WORDS || r->kind == PST_EVAL_CHOICES || r->answers;
    return known ? ratio((double)r->right, r->n) : (double)NAN;
}

/* Of tokens; labels have none. */
static double perplexity_of(const pst_eval_result *r) {
    return r->kind == PST_EVAL_LABELS ? (double)NAN : exp(ratio(r->nats, r->tokens));
}

static int add_parts(json_t *to, const pst_eval_result *r) {
    pst_evaluate_part part[PST_EVALUATE_PARTS];
    const uint32_t n = pst_evaluate_parts(loss_of(r), pair_loss(r), accuracy_of(r), part);
    int failed = 0;
    for (uint32_t i = 0; i < n; i++)
        failed |= json_object_set_new(to, part[i].key, number(part[i].value));
    return failed;
}

static pst_status write_json(const evaluation *e, const char *name, const pst_eval_result *r) {
    const double per_byte = ratio(r->nats, r->bytes);
    json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "set", name, "kind",
                          kind_of(r), "n", (json_int_t)r->n, "tokens", (json_int_t)r->tokens,
                          "bytes", (json_int_t)r->bytes, "loss", number(loss_of(r)), "perplexity",
                          number(perplexity_of(r)), "perplexity_per_byte", number(exp(per_byte)),
                          "bits_per_byte", number(pst_evaluate_bits_per_byte(r->nats, r->bytes)));
    int failed = !j;
    if (j) failed |= add_parts(j, r);
    if (j && r->kind == PST_EVAL_CHOICES)
        failed |= json_object_set_new(j, "accuracy_per_byte",
                                      number(ratio((double)r->right_per_byte, r->n)));
    failed = failed || json_dumpf(j, e->out, JSON_COMPACT | JSON_REAL_PRECISION(17)) < 0 ||
             fputc('\n', e->out) == EOF || fflush(e->out);
    json_decref(j);
    return failed ? cannot_write() : PST_OK;
}

/* Missing numbers are dashes. */
static void cell(FILE *out, int width, const char *format, double value) {
    char text[40];
    if (isfinite(value)) snprintf(text, sizeof text, format, value);
    fprintf(out, " %*s", width, isfinite(value) ? text : "-");
}

/* Two more lines for pairs of segments: the parts of the loss. */
static void write_parts(const evaluation *e, const pst_eval_result *r) {
    fprintf(e->out, "\n%-20s %8s %8" PRIu64 " %10" PRIu64, "  masked tokens", "", r->n, r->tokens);
    cell(e->out, 8, "%.4f", ratio(r->nats, r->tokens));
    fprintf(e->out, "\n%-20s %8s %8" PRIu64 " %10" PRIu64, "  next sentence", "", r->n, r->n);
    cell(e->out, 8, "%.4f", pair_loss(r));
    fprintf(e->out, " %11s %9s", "", "");
    cell(e->out, 9, "%.2f%%", 100 * accuracy_of(r));
}

static pst_status write_row(const evaluation *e, const char *name, const pst_eval_result *r) {
    if (!e->n)
        fprintf(e->out, "%-20s %8s %8s %10s %8s %11s %9s %9s %9s\n", "set", "kind", "n", "tokens",
                "loss", "perplexity", "per byte", "accuracy", "by bytes");
    fprintf(e->out, "%-20s %8s %8" PRIu64 " %10" PRIu64, name, kind_of(r), r->n, r->tokens);
    cell(e->out, 8, "%.4f", loss_of(r));
    cell(e->out, 11, "%.3f", perplexity_of(r));
    cell(e->out, 9, "%.4f", exp(ratio(r->nats, r->bytes)));
    cell(e->out, 9, "%.2f%%", r->pairs ? (double)NAN : 100 * accuracy_of(r));
    cell(e->out, 9, "%.2f%%",
         r->kind != PST_EVAL_CHOICES ? (double)NAN : 100 * ratio((double)r->right_per_byte, r->n));
    if (r->pairs) write_parts(e, r);
    return fputc('\n', e->out) == EOF || fflush(e->out) ? cannot_write() : PST_OK;
}

static pst_status write_result(evaluation *e, const char *name, const pst_eval_result *r) {
    PST_TRY(e->o->json ? write_json(e, name, r) : write_row(e, name, r));
    e->n++;
    return PST_OK;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* "NAME=FILE" or "FILE": the name, and the file. */
static const char *split_name(const char *item, char name[64]) {
    const char *sign = strchr(item, '='), *slash = strrchr(item, '/');
    if (sign && sign > item && (size_t)(sign - item) < 64 &&
        !memchr(item, '/', (size_t)(sign - item))) {
        snprintf(name, 64, "%.*s", (int)(sign - item), item);
        return sign + 1;
    }
    snprintf(name, 64, "%.63s", slash && slash[1] ? slash + 1 : item);
    return item;
}

static pst_status evaluate_data(evaluation *e, const pst_eval_scope *scope, const char *name,
                                pst_data *data) {
    pst_eval_result r;
    pst_status status = pst_eval_text(scope, data, &r);
    if (status != PST_OK) return pst_fail_in(status, "set %s", name);
    return write_result(e, name, &r);
}

/* Of a Hugging Face folder, whose config.json allows more tokens than most texts need, samples have
 * at most PST_EVAL_CONTEXT. */
static pst_eval_scope text_scope(const evaluation *e) {
    pst_eval_scope s = e->scope;
    if (!e->source.hf || e->o->context || s.model.context <= PST_EVAL_CONTEXT) return s;
    pst_log(PST_LOG_INFO, "samples have %d tokens, but the model's context is %u; see --context",
            PST_EVAL_CONTEXT, s.model.context);
    s.model.context = PST_EVAL_CONTEXT;
    return s;
}

static pst_status evaluate_text(evaluation *e, const char *item) {
    char name[64];
    char *path = (char *)split_name(item, name);
    const pst_eval_scope scope = text_scope(e);
    pst_data *data;
    PST_TRY(pst_evaluate_data(e->source.config, &scope.model, &path, 1, 1, &data));
    pst_status status = evaluate_data(e, &scope, name, data);
    data->row->close(data);
    return status;
}

typedef pst_status (*evaluate_file)(const pst_eval_scope *scope, const char *file,
                                    pst_eval_result *out);
static pst_status evaluate_files(evaluation *e, const char *const *item, int64_t n,
                                 evaluate_file evaluate) {
    for (int64_t i = 0; i < n; i++) {
        char name[64];
        const char *file = split_name(item[i], name);
        pst_eval_result r;
        PST_TRY(evaluate(&e->scope, file, &r));
        PST_TRY(write_result(e, name, &r));
    }
    return PST_OK;
}

/* What the run is evaluated on while it trains. */
static pst_status evaluate_own(evaluation *e) {
    const pst_config *c = e->source.config;
    pst_evaluate_sets sets;
    pst_data *data;
    if (e->source.hf)
        return pst_fail(PST_EINPUT,
                        "%s has no data of its own; name what to evaluate on: --data, "
                        "--words or --choices",
                        e->source.path);
    PST_TRY(pst_evaluate_data(c, &e->scope.model, c->data.paths, c->data.n_path, 0, &data));
    pst_status status = pst_evaluate_open(c, &e->scope.model, &sets);
    int splits = data->row->size(data, PST_SPLIT_VALIDATION) > 0;
    if (status == PST_OK && !splits && !sets.n)
        status = pst_fail(PST_EINPUT,
                          "%s has neither a validation split (data.validation) nor eval.sets; name "
                          "what to evaluate on: --data, --words or --choices",
                          e->source.path);
    if (status == PST_OK && splits) status = evaluate_data(e, &e->scope, "validation", data);
    for (uint32_t i = 0; status == PST_OK && i < sets.n; i++)
        status = evaluate_data(e, &e->scope, sets.set[i].name, sets.set[i].data);
    pst_evaluate_close(&sets);
    data->row->close(data);
    return status;
}

static pst_status evaluate_all(evaluation *e) {
    const pst_eval_options *o = e->o;
    e->scope = (pst_eval_scope){.source = &e->source, .limit = (uint64_t)o->limit};
    PST_TRY(pst_source_model(&e->source, o->context, &e->scope.model));
    if (!o->n_text && !o->n_words && !o->n_choices) return evaluate_own(e);
    for (int64_t i = 0; i < o->n_text; i++) PST_TRY(evaluate_text(e, o->text[i]));
    PST_TRY(evaluate_files(e, o->words, o->n_words, pst_eval_words));
    return evaluate_files(e, o->choices, o->n_choices, pst_eval_choices);
}

static pst_status check(const pst_eval_options *o, const FILE *out) {
    const struct {
        const char *name;
        int64_t value, most;
    } number[] = {{"n_text", o->n_text, MOST_SETS},
                  {"n_words", o->n_words, MOST_SETS},
                  {"n_choices", o->n_choices, MOST_SETS},
                  {"limit", o->limit, INT64_MAX},
                  {"context", o->context, PST_GENERATE_MAX}};
    if (!o->source || !out)
        return pst_fail(PST_EINPUT, "pst_eval: %s is NULL", out ? "source" : "out");
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (number[i].value < 0 || number[i].value > number[i].most)
            return pst_fail(PST_EINPUT, "pst_eval: %s is %" PRId64 ", expected 0 to %" PRId64,
                            number[i].name, number[i].value, number[i].most);
    return PST_OK;
}

/* Enters --field and --label. */
static pst_status name_fields(const pst_eval_options *o, pst_config *c) {
    const struct { const char *key, *value; } names[] = {{"field", o->field}, {"label", o->label}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i].value || !*names[i].value) continue;
        if (strcmp(c->data.kind, "labels") != 0)
            return pst_fail(PST_EINPUT, "--%s is for models that give labels, but %s does not",
                            names[i].key, o->source);
        PST_TRY(pst_config_override(c, "data", names[i].key, names[i].value));
    }
    return PST_OK;
}

pst_status pst_eval(const pst_eval_options *options, FILE *out) {
    pst_eval_options o;
    evaluation e = {.o = &o, .out = out};
    PST_TRY(pst_sized_take("pst_eval", options, &o, sizeof o));
    PST_TRY(check(&o, out));
    PST_TRY(pst_source_open(o.source, o.base, &e.source));
    pst_status status = name_fields(&o, e.source.config);
    if (status == PST_OK) status = evaluate_all(&e);
    pst_source_close(&e.source);
    return status;
}
