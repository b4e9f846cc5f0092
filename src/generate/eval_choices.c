/* Multiple choice by likelihood (HellaSwag, Zellers et al. 2019): which of several endings of a
 * text is the most likely, as a whole and per byte. */
#include "base/grow.h"
#include "generate/eval.h"
#include "generate/scorer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENDINGS = 64, ROWS = 1024 /* positions of a run: enough for fast products */ };

/* An ending: tokens [from, to) of all; those before `own` are the context's. */
typedef struct {
    size_t from, own, to;
    size_t bytes, added; /* of the ending, and of the blank that was put before it */
    double nats;
} ending;

typedef struct {
    size_t first, n, label; /* of the endings */
} question;

typedef struct {
    pst_encoder *encoder;
    uint32_t context, vocabulary; /* of the model */
    pst_ids ids;
    ending *endings;
    question *questions;
    size_t n_ending, n_question, cap_ending, cap_question;
} choices;

static pst_status add_ending(choices *c, const char *context, const json_t *text) {
    const char *own = json_string_value(text);
    PST_TRY(pst_grow(&c->endings, sizeof *c->endings, c->n_ending, &c->cap_ending, "for endings"));
    ending e = {.from = c->ids.n, .bytes = json_string_length(text)};
    PST_TRY(pst_eval_encode(c->encoder, context, strlen(context), 1, c->vocabulary, &c->ids));
    e.own = c->ids.n;
    if (*own != ' ') {
        e.added = 1;
        pst_text with = {0};
        pst_status status = pst_text_add(&with, " ", 1);
        if (status == PST_OK) status = pst_text_add(&with, own, e.bytes);
        if (status == PST_OK)
            status = pst_eval_encode(c->encoder, with.byte, with.n, 0, c->vocabulary, &c->ids);
        pst_text_free(&with);
        PST_TRY(status);
    } else {
        PST_TRY(pst_eval_encode(c->encoder, own, e.bytes, 0, c->vocabulary, &c->ids));
    }
    e.to = c->ids.n;
    if (e.own == e.from || e.to - e.own > c->context)
        return pst_fail(PST_EINPUT,
                        "the context or an ending has no tokens, or an ending more than "
                        "the model's context of %u",
                        c->context);
    c->endings[c->n_ending++] = e;
    return PST_OK;
}

/* A number, or its text. */
static int read_label(const json_t *label, size_t n, size_t *out) {
    char *end = NULL;
    const char *text = json_string_value(label);
    long long value = -1;
    if (json_is_integer(label)) value = json_integer_value(label);
    else if (text && *text) value = strtoll(text, &end, 10);
    *out = (size_t)value;
    return value >= 0 && (size_t)value < n && (!end || !*end);
}

static pst_status add_question(choices *c, const json_t *line) {
    const json_t *endings = json_object_get(line, "endings"),
                 *label = json_object_get(line, "label");
    const char *context = json_string_value(json_object_get(line, "ctx"));
    question q = {.first = c->n_ending, .n = json_array_size(endings)};
    if (!context || q.n < 2 || q.n > ENDINGS)
        return pst_fail(PST_EINPUT,
                        "expected the fields \"ctx\", a text, and \"endings\", 2 to %d "
                        "texts",
                        ENDINGS);
    if (!read_label(label, q.n, &q.label))
        return pst_fail(PST_EINPUT, "the field \"label\" must be the number of an ending, 0 to %zu",
                        q.n - 1);
    for (size_t i = 0; i < q.n; i++) {
        const json_t *text = json_array_get(endings, i);
        if (!json_is_string(text) || !json_string_length(text))
            return pst_fail(PST_EINPUT, "ending %zu is no text", i);
        PST_TRY(add_ending(c, context, text));
    }
    PST_TRY(pst_grow(&c->questions, sizeof *c->questions, c->n_question, &c->cap_question,
                     "for questions"));
    c->questions[c->n_question++] = q;
    return PST_OK;
}

static pst_status each(void *arg, char *line, size_t n) {
    json_error_t error;
    json_t *root = pst_json_lines_parse(line, n, &error);
    if (!root) return pst_fail(PST_EINPUT, "not JSON: %s", error.text);
    pst_status status = add_question(arg, root);
    json_decref(root);
    return status;
}

/* --- likelihoods ------------------------------------------------------------------------------ */

/* One row of a run: the tokens before the last, and the ending's as targets. */
static void fill_row(const choices *c, const ending *e, uint32_t positions, int32_t *token,
                     int32_t *target) {
    size_t from = e->from;
    if (e->to - from - 1 > positions) from = e->to - 1 - positions; /* the beginning is left out */
    for (size_t i = from; i + 1 < e->to; i++) {
        token[i - from] = c->ids.id[i];
        if (i + 1 >= e->own) target[i - from] = c->ids.id[i + 1];
    }
}

static pst_status run(choices *c, const pst_scorer *s, size_t first, int32_t *token) {
    const uint64_t n = (uint64_t)s->samples * s->positions;
    int32_t *target = token + n;
    const float *losses;
    memset(token, 0, n * sizeof *token);
    memset(target, 0xff, n * sizeof *target);
    for (uint32_t k = 0; k < s->samples && first + k < c->n_ending; k++)
        fill_row(c, &c->endings[first + k], s->positions, token + k * s->positions,
                 target + k * s->positions);
    PST_TRY(pst_scorer_put(s, "tokens", token));
    PST_TRY(pst_scorer_put(s, "targets", target));
    PST_TRY(pst_scorer_run(s, &losses));
    for (uint64_t i = 0; i < n; i++)
        if (target[i] >= 0) c->endings[first + i / s->positions].nats += losses[i];
    return PST_OK;
}

static pst_status score(choices *c, const pst_scorer *s) {
    int32_t *token = malloc(2 * (uint64_t)s->samples * s->positions * sizeof *token);
    pst_status status = token ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the endings of a run");
    for (size_t first = 0; status == PST_OK && first < c->n_ending; first += s->samples)
        status = run(c, s, first, token);
    free(token);
    return status;
}

static void count(const choices *c, pst_eval_result *out) {
    for (size_t i = 0; i < c->n_question; i++) {
        const question *q = &c->questions[i];
        const ending *e = c->endings + q->first;
        size_t best = 0, best_per_byte = 0;
        for (size_t k = 1; k < q->n; k++) {
            if (e[k].nats < e[best].nats) best = k;
            if (e[k].nats / (double)e[k].bytes <
                e[best_per_byte].nats / (double)e[best_per_byte].bytes)
                best_per_byte = k;
        }
        out->right += best == q->label;
        out->right_per_byte += best_per_byte == q->label;
        out->nats += e[q->label].nats;
        out->tokens += e[q->label].to - e[q->label].own;
        out->bytes += e[q->label].bytes + e[q->label].added;
    }
    out->n = c->n_question;
}

pst_status pst_eval_choices(const pst_eval_scope *scope, const char *file, pst_eval_result *out) {
    const pst_model_row *row;
    pst_scorer s = {0};
    choices c = {.context = scope->model.context, .vocabulary = scope->model.vocabulary};
    *out = (pst_eval_result){.kind = PST_EVAL_CHOICES};
    PST_TRY(pst_registry_model(scope->model.kind, &row));
    if (!row->continues)
        return pst_fail(PST_EINPUT, "a model of kind %s does not predict the tokens that follow",
                        row->name);
    pst_status status = pst_encoder_open(scope->source->tokenizer, 0, &c.encoder);
    if (status == PST_OK) status = pst_eval_lines(file, scope->limit, each, &c);
    size_t longest = 1;
    for (size_t i = 0; i < c.n_ending; i++)
        if (c.endings[i].to - c.endings[i].from - 1 > longest)
            longest = c.endings[i].to - c.endings[i].from - 1;
    if (longest > c.context) longest = c.context;
    if (status == PST_OK)
        status = pst_scorer_open(scope->source, longest < ROWS ? (uint32_t)(ROWS / longest) : 1,
                                 (uint32_t)longest, &s);
    if (status == PST_OK) status = score(&c, &s);
    if (status == PST_OK) count(&c, out);
    pst_scorer_close(&s);
    pst_encoder_close(c.encoder);
    pst_ids_free(&c.ids);
    free(c.endings);
    free(c.questions);
    return status;
}
