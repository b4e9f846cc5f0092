/* Prediction of the last word of each line, given all of the line before it (LAMBADA, Paperno et
 * al. 2016): right if each of the word's tokens is the most likely one after those before it. */
#include "generate/decoder.h"
#include "generate/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 8 /* lines */ };

typedef struct {
    pst_sequence sequence;
    pst_ids ids;   /* of the line */
    size_t target; /* of the ids, the first of the word */
    int wrong;
} line_state;

typedef struct {
    int json;     /* 1: the file has JSON Lines */
    int measures; /* 1: only the longest line is looked for */
    size_t longest;
    uint32_t context, vocabulary; /* of the model */
    pst_encoder *encoder;
    pst_decoder decoder;
    uint32_t n; /* lines that wait */
    line_state line[TOGETHER];
    pst_eval_result *out;
} words;

/* -log of the probability of a token; *best: the most likely one. */
static double loss_of(const float *logits, uint32_t n, int32_t token, uint32_t *best) {
    double sum = 0;
    *best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[*best]) *best = i;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)logits[i] - logits[*best]);
    return log(sum) + logits[*best] - logits[token];
}

/* A token of the word: counts its loss, and appends it. */
static void take(words *w, line_state *l) {
    pst_sequence *s = &l->sequence;
    uint32_t best;
    const int32_t token = l->ids.id[s->n];
    w->out->nats += loss_of(s->logits, w->decoder.vocabulary, token, &best);
    w->out->tokens++;
    l->wrong |= best != (uint32_t)token;
    s->done = ++s->n == l->ids.n;
    w->out->right += s->done && !l->wrong;
}

static pst_status run(words *w) {
    pst_sequence s[TOGETHER] = {0};
    uint32_t left = w->n;
    for (uint32_t i = 0; i < TOGETHER; i++) {
        line_state *l = &w->line[i];
        l->wrong = 0;
        l->sequence = (pst_sequence){.token = l->ids.id, .n = l->target, .done = i >= w->n};
        /* a line that is longer than the context loses its beginning */
        if (i < w->n && l->ids.n > w->decoder.context)
            l->sequence.start = l->ids.n - w->decoder.context;
    }
    while (left) {
        for (uint32_t i = 0; i < TOGETHER; i++) s[i] = w->line[i].sequence;
        PST_TRY(pst_decoder_run(&w->decoder, s));
        left = 0;
        for (uint32_t i = 0; i < TOGETHER; i++) {
            w->line[i].sequence = s[i];
            if (s[i].logits && !s[i].done) take(w, &w->line[i]);
            left += !w->line[i].sequence.done;
        }
    }
    for (uint32_t i = 0; i < TOGETHER; i++) w->line[i].ids.n = 0;
    w->n = 0;
    return PST_OK;
}

/* The word keeps the blank before it, as tokenizers expect. */
static pst_status add_text(words *w, const char *text, size_t n) {
    line_state *l = &w->line[w->n];
    while (n && text[n - 1] == ' ') n--;
    size_t word = n;
    while (word && text[word - 1] != ' ') word--;
    if (word) word--;
    if (!word) return pst_fail(PST_EINPUT, "the line has no word before its last one");
    l->ids.n = 0;
    PST_TRY(pst_eval_encode(w->encoder, text, word, 1, w->vocabulary, &l->ids));
    l->target = l->ids.n;
    PST_TRY(pst_eval_encode(w->encoder, text + word, n - word, 0, w->vocabulary, &l->ids));
    if (l->ids.n - l->target >= w->context)
        return pst_fail(PST_EINPUT, "the last word has %zu tokens, but the model's context is %u",
                        l->ids.n - l->target, w->context);
    if (l->ids.n > w->longest) w->longest = l->ids.n;
    if (w->measures) return PST_OK;
    w->out->n++;
    w->out->bytes += n - word;
    return ++w->n == TOGETHER ? run(w) : PST_OK;
}

static pst_status each(void *arg, char *line, size_t n) {
    words *w = arg;
    const pst_json_lines form = {.field = "text"};
    json_t *root;
    const json_t *text;
    if (!w->json) return add_text(w, line, n);
    PST_TRY(pst_json_lines_text(&form, line, n, &root, &text));
    pst_status status = add_text(w, json_string_value(text), json_string_length(text));
    json_decref(root);
    return status;
}

/* Twice over the lines: for the length of the longest, and for the words. */
static pst_status evaluate(words *w, const pst_eval_scope *scope, const char *file) {
    w->measures = 1;
    PST_TRY(pst_eval_lines(file, scope->limit, each, w));
    w->measures = 0;
    const pst_decoder_options options = {.sequences = TOGETHER,
                                         .positions = w->longest < w->context ? (uint32_t)w->longest
                                                                              : w->context};
    PST_TRY(pst_decoder_open(scope->source, &options, &w->decoder));
    PST_TRY(pst_eval_lines(file, scope->limit, each, w));
    return w->n ? run(w) : PST_OK;
}

pst_status pst_eval_words(const pst_eval_scope *scope, const char *file, pst_eval_result *out) {
    words w = {.json = pst_json_lines_is(file),
               .context = scope->model.context,
               .vocabulary = scope->model.vocabulary,
               .out = out};
    *out = (pst_eval_result){.kind = PST_EVAL_WORDS};
    PST_TRY(pst_encoder_open(scope->source->tokenizer, 0, &w.encoder));
    pst_status status = evaluate(&w, scope, file);
    for (uint32_t i = 0; i < TOGETHER; i++) pst_ids_free(&w.line[i].ids);
    pst_decoder_close(&w.decoder, status);
    pst_encoder_close(w.encoder);
    return status;
}
