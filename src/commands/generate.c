/* `penstock generate`: text from a checkpoint. One rank, forward only; every token computes the
 * whole window again. */
#include "backends/machine.h"
#include "base/rng.h"
#include "base/sized.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"
#include "run/resume.h"
#include "comm/world/world.h"
#include "penstock/run.h"
#include "group/group.h"
#include "tokenizer/tokenizer.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 256 }; /* tokens of the byte tokenizer */

typedef struct {
    pst_config *config;
    pst_prepared *p;
    pst_group *group;
    pst_tokenizer *tokenizer;
    int32_t *tokens; /* prompt and continuation; the window follows them */
    int32_t *window; /* the model's input */
    float *logit;    /* [2][n_logit] of the next token, and memory to sort them */
    double *weight;  /* [n_logit] */
    uint64_t n_token;
    uint32_t n_logit;      /* tokens that may be generated */
    uint32_t data, logits; /* tensors */
} generator;

/* A program may train on any tokens (data.kind custom), and files of tokens may be without
 * tokenizer; if there are as many as bytes, they are taken as bytes. */
static pst_status check_tokens(const pst_config *c, const char *source) {
    if (!strcmp(c->data.kind, "tokens") && !strcmp(c->data.tokenizer, "byte") &&
        c->model.vocabulary != BYTES)
        return pst_fail(PST_EINPUT,
                        "%s: data.tokenizer is byte, but the model has %" PRId64
                        " tokens, not 256; train with the tokenizer that made them",
                        source, c->model.vocabulary);
    if (strcmp(c->data.kind, "custom") || !strcmp(c->model.kind, "custom") ||
        c->model.vocabulary == BYTES)
        return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s: the model's tokens were defined by the program that trained the model "
                    "(data.kind custom); penstock generate supports only bytes as tokens (256)",
                    source);
}

/* The tokenizer that the configuration names; hash: as pst_ckpt_tokenizer_open. */
static pst_status open_tokenizer(generator *g, const char *source, uint64_t hash) {
    return pst_ckpt_tokenizer_open(g->config->data.tokenizer, source, hash, &g->tokenizer);
}

/* The configuration in a checkpoint, with this machine's device, and the tokenizer. */
static pst_status open_checkpoint(generator *g, const char *source) {
    static const char *const override[] = {"parallel.device=auto"};
    struct stat st;
    char *folder = NULL;
    pst_ckpt *ckpt = NULL;
    if (stat(source, &st) != 0) return pst_fail(PST_EINPUT, "%s: %s", source, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return pst_fail(
            PST_EINPUT,
            "%s: neither a run, a checkpoint of a run, nor a Hugging Face model with config.json",
            source);
    PST_TRY(pst_ckpt_find(source, &folder));
    pst_status status = pst_ckpt_open(folder, &ckpt);
    if (status == PST_OK) status = pst_ckpt_config(ckpt, override, 1, &g->config);
    if (status == PST_OK) status = check_tokens(g->config, source);
    if (status == PST_OK) status = open_tokenizer(g, source, ckpt->info.tokenizer);
    pst_ckpt_close(ckpt);
    free(folder);
    return status;
}

/* The sizes of a Hugging Face model, from config.json, and its tokenizer. Without the files of one,
 * its tokens must be bytes. */
static pst_status open_hf(generator *g, const char *source) {
    pst_model_config m = {0};
    char *text = NULL, *folder = NULL, *override = NULL;
    struct stat st;
    pst_safetensors_file *f;
    if (stat(source, &st) == 0 && S_ISREG(st.st_mode)) {
        /* an error in the file itself is reported first */
        PST_TRY(pst_safetensors_open(source, &f));
        pst_safetensors_close(f);
    }
    PST_TRY(pst_hf_config(source, &m));
    PST_TRY(pst_hf_find_tokenizer(source, &folder));
    pst_status status =
        folder ? PST_OK
               : pst_hf_check_tokens(
                     source, "byte",
                     "but the files of a tokenizer (tokenizer.json, or vocab.json with "
                     "merges.txt) are not beside it; put them there, or use a model with bytes as "
                     "tokens, such as one that penstock convert wrote from a run on text");
    if (status == PST_OK &&
        (asprintf(&text,
                  "model: {kind: gpt, layers: %u, heads: %u, channels: %u, context: %u, "
                  "vocabulary: %u, activation: %s}\ndata: {kind: text, paths: [none]}\n",
                  m.layers, m.heads, m.channels, m.context, m.vocabulary,
                  pst_activation_name(m.activation)) < 0 ||
         asprintf(&override, "data.tokenizer=%s", folder ? folder : "byte") < 0))
        status = pst_no_memory("for a configuration");
    if (status == PST_OK)
        status = pst_config_parse(text, source, (const char *const *)&override, 1, &g->config);
    if (status == PST_OK) status = open_tokenizer(g, source, 0);
    free(text);
    free(folder);
    free(override);
    return status;
}

static pst_status open_model(generator *g, const char *source) {
    int hf = pst_hf_is(source);
    pst_world *world;
    PST_TRY(hf ? open_hf(g, source) : open_checkpoint(g, source));
    pst_prepare_options options = {.n_rank = 1, .threads = pst_machine_threads(1), .infer = 1};
    PST_TRY(pst_prepare_kind(g->config, &options));
    PST_TRY(pst_prepare(g->config, &options, &g->p));
    if (!g->p->model->continues)
        return pst_fail(PST_EINPUT, "%s: a model of kind %s cannot continue text", source,
                        g->p->model->name);
    PST_TRY(pst_world_single.open(&world));
    pst_status status = pst_group_open(world, "self", 1, &g->group);
    if (status != PST_OK) {
        world->ops->close(world);
        return status;
    }
    PST_TRY(pst_group_open_ranks(g->group, g->p, 0));
    return hf ? pst_resume_read_hf(g->group->local[0], source)
              : pst_resume_read_weights(g->group->local[0], source);
}

static void find_tensors(generator *g) {
    for (uint32_t t = 0; t < g->p->graph->n_tensor; t++) {
        if (g->p->graph->tensor[t].role == PST_TENSOR_DATA) g->data = t;
        if (g->p->graph->tensor[t].role == PST_TENSOR_OUTPUT) g->logits = t;
    }
}

/* --- sampling --------------------------------------------------------------------------------- */

static int is_larger_first(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The k-th largest of n logits (k >= 1); sorted: memory for n. */
static float kth_largest(const float *logit, uint32_t n, uint32_t k, float *sorted) {
    memcpy(sorted, logit, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, is_larger_first);
    return sorted[k - 1];
}

static int32_t most_likely(const float *logit, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logit[i] > logit[best]) best = i;
    return (int32_t)best;
}

/* Samples from softmax(logits/temperature) over the top k; u in [0, 1) selects the token. */
static int32_t draw(generator *g, const pst_generate_options *o, double u) {
    const float *logit = g->logit;
    uint32_t n = g->n_logit;
    if (o->temperature <= 0) return most_likely(logit, n);
    float floor_ = -INFINITY, top = logit[most_likely(logit, n)];
    if (o->top_k > 0 && o->top_k < n)
        floor_ = kth_largest(logit, n, (uint32_t)o->top_k, g->logit + n);
    double *p = g->weight, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        p[i] = logit[i] >= floor_ ? exp(((double)logit[i] - top) / o->temperature) : 0;
        sum += p[i];
    }
    double at = u * sum;
    for (uint32_t i = 0; i < n; i++)
        if ((at -= p[i]) < 0) return (int32_t)i;
    return most_likely(logit, n);
}

static pst_status next_token(generator *g, const pst_generate_options *o) {
    uint32_t context = g->p->model_config.context, vocabulary = g->p->model_config.vocabulary;
    uint64_t used = g->n_token < context ? g->n_token : context;
    uint32_t words[4];
    const pst_rank *r = g->group->local[0];
    memset(g->window, 0, context * sizeof *g->window);
    memcpy(g->window, g->tokens + g->n_token - used, used * sizeof *g->window);
    PST_TRY(
        pst_rank_write(r, pst_rank_data(r, g->data, 0), g->window, context * sizeof *g->window));
    PST_TRY(pst_group_run(g->group, 0));
    const float *last = (const float *)pst_rank_output(r, g->logits, 0) + (used - 1) * vocabulary;
    PST_TRY(pst_rank_read(r, g->logit, last, g->n_logit * sizeof *g->logit));
    for (uint32_t i = 0; i < g->n_logit; i++)
        if (!pst_tokenizer_has(g->tokenizer, (int32_t)i)) g->logit[i] = -INFINITY;
    pst_rng_words(pst_rng_key((uint64_t)o->seed, "generate"), 0, g->n_token, words);
    g->tokens[g->n_token++] = draw(g, o, pst_rng_uniform(words[0]));
    return PST_OK;
}

/* Writes tokens [from, n_token) as text. */
static pst_status write_tokens(const generator *g, uint64_t from, FILE *out) {
    pst_text text = {0};
    pst_status status =
        pst_tokenizer_decode(g->tokenizer, g->tokens + from, g->n_token - from, from == 0, &text);
    if (status == PST_OK && (fwrite(text.byte, 1, text.n, out) != text.n || fflush(out) != 0))
        status = pst_fail(PST_ENOMEM, "cannot write the text: %s", strerror(errno));
    pst_text_free(&text);
    return status;
}

static pst_status encode_prompt(const generator *g, const char *prompt, pst_ids *ids) {
    pst_encoder *e = NULL;
    uint32_t vocabulary = g->p->model_config.vocabulary;
    PST_TRY(pst_encoder_open(g->tokenizer, 1, &e));
    pst_status status = pst_encode(e, prompt, strlen(prompt), 1, ids);
    pst_encoder_close(e);
    for (size_t i = 0; status == PST_OK && i < ids->n; i++)
        if ((uint32_t)ids->id[i] >= vocabulary)
            status =
                pst_fail(PST_EINPUT, "the prompt has token %d, but the model has only %u tokens",
                         ids->id[i], vocabulary);
    if (status == PST_OK && !ids->n) status = pst_fail(PST_EINPUT, "the prompt has no tokens");
    return status;
}

static pst_status reserve(generator *g, uint64_t prompt, const pst_generate_options *o) {
    uint32_t vocabulary = g->p->model_config.vocabulary, size = pst_tokenizer_size(g->tokenizer);
    g->n_logit = vocabulary < size ? vocabulary : size;
    g->tokens =
        calloc(prompt + (uint64_t)o->tokens + g->p->model_config.context, sizeof *g->tokens);
    g->logit = malloc(2 * g->n_logit * sizeof *g->logit);
    g->weight = malloc(g->n_logit * sizeof *g->weight);
    if (!g->tokens || !g->logit || !g->weight)
        return pst_fail(PST_ENOMEM, "no memory for %lld tokens", (long long)o->tokens);
    g->window = g->tokens + prompt + (uint64_t)o->tokens;
    return PST_OK;
}

static pst_status continue_text(generator *g, const pst_generate_options *o, FILE *out) {
    PST_TRY(write_tokens(g, 0, out));
    for (int64_t i = 0; i < o->tokens; i++) {
        PST_TRY(next_token(g, o));
        PST_TRY(write_tokens(g, g->n_token - 1, out));
    }
    return fputc('\n', out) == EOF
               ? pst_fail(PST_ENOMEM, "cannot write the text: %s", strerror(errno))
               : PST_OK;
}

static pst_status generate(generator *g, const pst_generate_options *o, FILE *out) {
    const char *prompt = o->prompt && *o->prompt ? o->prompt : "\n";
    pst_ids ids = {0};
    pst_status status = encode_prompt(g, prompt, &ids);
    if (status == PST_OK) status = reserve(g, ids.n, o);
    if (status == PST_OK) {
        memcpy(g->tokens, ids.id, ids.n * sizeof *ids.id);
        g->n_token = ids.n;
    }
    pst_ids_free(&ids);
    return status == PST_OK ? continue_text(g, o, out) : status;
}

static pst_status check_options(const pst_generate_options *o, const FILE *out) {
    if (!o->source || !out)
        return pst_fail(PST_EINPUT, "pst_generate: %s is NULL", out ? "source" : "out");
    if (o->tokens < 0 || o->tokens > PST_GENERATE_MAX)
        return pst_fail(PST_EINPUT, "pst_generate: tokens is %" PRId64 ", expected 0 to %d",
                        o->tokens, PST_GENERATE_MAX);
    if (o->top_k < 0)
        return pst_fail(PST_EINPUT, "pst_generate: top_k is %" PRId64 ", expected 0 or more",
                        o->top_k);
    if (!(o->temperature >= 0)) /* also refuses NaN */
        return pst_fail(PST_EINPUT, "pst_generate: temperature is %g, expected 0 or more",
                        o->temperature);
    return PST_OK;
}

/* In a job of several ranks only rank 0 prints. */
static int writes(void) {
    const char *world = pst_registry_world()->name,
               *rank = getenv(strcmp(world, "tcp") ? "PMIX_RANK" : "RANK");
    return !strcmp(world, "single") || !rank || atoi(rank) == 0;
}

pst_status pst_generate(const pst_generate_options *options, FILE *out) {
    generator g = {0};
    pst_generate_options o;
    PST_TRY(pst_sized_take("pst_generate", options, &o, sizeof o));
    PST_TRY(check_options(&o, out));
    if (!writes()) return PST_OK;
    pst_status status = open_model(&g, o.source);
    if (status == PST_OK) {
        find_tensors(&g);
        status = generate(&g, &o, out);
    }
    if (g.group) pst_group_close(g.group, 0);
    pst_prepared_close(g.p);
    pst_config_close(g.config);
    pst_tokenizer_close(g.tokenizer);
    free(g.tokens);
    free(g.logit);
    free(g.weight);
    return status;
}
