/* `penstock generate`: continues texts with a trained model. */
#include "backends/registry.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "comm/launch/launch.h"
#include "generate/decoder.h"
#include "generate/prompts.h"
#include "generate/sampler.h"
#include "generate/writer.h"
#include "penstock/run.h"
#include "run/limits.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A prompt and its continuation. */
typedef struct {
    const char *prompt;
    pst_sequence sequence;
    uint64_t n_prompt; /* tokens of the prompt */
    pst_writer writer;
    const char *end; /* why it ended: "tokens", "stop" (string) or "end" (token) */
} output;

typedef struct {
    const pst_generate_options *o;
    pst_source source;
    pst_prompts prompts;
    pst_model_config model; /* its context is that of the texts */
    pst_decoder decoder;
    int leads; /* 1: this process writes */
    pst_sampler sampler;
    uint32_t n;
    output *texts;           /* [n] */
    pst_sequence *sequences; /* [n] */
} generator;

/* --- options ---------------------------------------------------------------------------------- */

static pst_status check_number(const char *name, double value, double most) {
    if (value >= 0 && value <= most) return PST_OK; /* refuses NaN */
    return pst_fail(PST_EINPUT, "pst_generate: %s is %g, expected 0 to %g", name, value, most);
}

static pst_status check_strings(const pst_generate_options *o) {
    for (int64_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !*o->stop[i])
            return pst_fail(PST_EINPUT, "a stop string is empty; omit it");
    if (o->system && (!o->chat || !*o->chat))
        return pst_fail(PST_EINPUT, "a system message needs a chat template (--chat)");
    return PST_OK;
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
    if (o->context < 0 || o->context > PST_GENERATE_MAX)
        return pst_fail(PST_EINPUT, "pst_generate: context is %" PRId64 ", expected 0 to %d",
                        o->context, PST_GENERATE_MAX);
    if (o->ranks < 0 || o->ranks > PST_RANKS_MAX)
        return pst_fail(PST_EINPUT, "pst_generate: ranks is %" PRId64 ", expected 0 to %d",
                        o->ranks, PST_RANKS_MAX);
    PST_TRY(check_number("top_p", o->top_p, 1));
    PST_TRY(check_number("min_p", o->min_p, 1));
    PST_TRY(check_number("repetition_penalty", o->repetition_penalty, 100));
    if (o->n_prompts < 0 || o->n_prompts > PST_GENERATE_PROMPTS)
        return pst_fail(PST_EINPUT, "pst_generate: n_prompts is %" PRId64 ", expected 0 to %d",
                        o->n_prompts, PST_GENERATE_PROMPTS);
    return check_strings(o);
}

/* --- texts ------------------------------------------------------------------------------------ */

static pst_status open_text(generator *g, uint32_t i, FILE *out) {
    const pst_generate_options *o = g->o;
    output *t = &g->texts[i];
    const char *prompt = o->n_prompts ? o->prompts[i] : o->prompt;
    pst_ids ids = {0};
    t->prompt = prompt && *prompt ? prompt : "\n";
    t->writer = (pst_writer){.tokenizer = g->source.tokenizer,
                             .stop = o->stop,
                             .n_stop = (size_t)o->n_stop,
                             .out = g->n == 1 && !o->json && g->leads ? out : NULL};
    pst_status status = pst_prompts_encode(&g->prompts, &g->source, t->prompt, &g->model, &ids);
    if (status == PST_OK) {
        g->sequences[i].token = malloc((ids.n + (uint64_t)o->tokens) * sizeof(int32_t));
        if (!g->sequences[i].token)
            status = pst_fail(PST_ENOMEM, "no memory for %" PRId64 " tokens", o->tokens);
    }
    if (status == PST_OK) {
        memcpy(g->sequences[i].token, ids.id, ids.n * sizeof *ids.id);
        g->sequences[i].n = t->n_prompt = ids.n;
    }
    pst_ids_free(&ids);
    if (status == PST_EINPUT && g->n > 1) return pst_fail_in(status, "prompt %u", i + 1);
    return status;
}

static pst_status cannot_write(void) {
    return pst_fail(PST_ENOMEM, "cannot write the text: %s", strerror(errno));
}

/* The prompt as the model has read it. */
static pst_status write_prompt(const generator *g, uint32_t i, FILE *out) {
    pst_text decoded = {0};
    pst_status status = pst_tokenizer_decode(g->source.tokenizer, g->sequences[i].token,
                                             g->texts[i].n_prompt, 1, &decoded);
    if (status == PST_OK && (fwrite(decoded.byte, 1, decoded.n, out) != decoded.n || fflush(out)))
        status = cannot_write();
    pst_text_free(&decoded);
    return status;
}

static void end(generator *g, uint32_t i, const char *why) {
    g->texts[i].end = why;
    g->sequences[i].done = 1;
}

/* Whether the token ends the text, which does not have it. */
static int is_end(const generator *g, int32_t token) {
    int ends = token == g->prompts.end;
    for (uint32_t i = 0; i < g->source.ends.n; i++) ends |= token == g->source.ends.id[i];
    return ends && !g->o->ignore_end;
}

/* Chooses the next token of a text. */
static pst_status continue_text(generator *g, uint32_t i) {
    output *t = &g->texts[i];
    pst_sequence *s = &g->sequences[i];
    uint32_t words[4];
    pst_rng_words(pst_rng_key((uint64_t)g->o->seed, "generate"), i, s->n, words);
    int32_t token =
        pst_sampler_draw(&g->sampler, s->logits, s->token, s->n, pst_rng_uniform(words[0]));
    s->token[s->n++] = token;
    if (is_end(g, token)) end(g, i, "end");
    else PST_TRY(pst_writer_add(&t->writer, token, 0));
    if (t->writer.stopped) end(g, i, "stop");
    else if (!s->done && s->n - t->n_prompt == (uint64_t)g->o->tokens) end(g, i, "tokens");
    return s->done ? pst_writer_end(&t->writer) : PST_OK;
}

static pst_status run(generator *g) {
    for (;;) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < g->n; i++) left += !g->sequences[i].done;
        if (!left) return PST_OK;
        PST_TRY(pst_decoder_run(&g->decoder, g->sequences));
        for (uint32_t i = 0; i < g->n; i++)
            if (!g->sequences[i].done && g->sequences[i].logits) PST_TRY(continue_text(g, i));
    }
}

/* --- output ----------------------------------------------------------------------------------- */

/* JSON is UTF-8: U+FFFD for each byte that is not. */
static pst_status make_valid(const pst_text *from, pst_text *to) {
    const char *at = from->byte, *end = at + from->n;
    while (at < end) {
        const int n = pst_utf8_bytes(at); /* a zero follows the text */
        PST_TRY(n ? pst_text_add(to, at, (size_t)n) : pst_text_add(to, "\xef\xbf\xbd", 3));
        at += n ? n : 1;
    }
    return PST_OK;
}

static pst_status write_object(const generator *g, uint32_t i, FILE *out) {
    const output *t = &g->texts[i];
    const pst_text prompt = {.byte = (char *)t->prompt, .n = strlen(t->prompt)};
    pst_text valid[2] = {{0}};
    pst_status status = make_valid(&prompt, &valid[0]);
    if (status == PST_OK) status = make_valid(&t->writer.text, &valid[1]);
    json_t *line = NULL;
    if (status == PST_OK)
        line = json_pack("{s:s%, s:s%, s:I, s:I, s:s}", "prompt", valid[0].byte, valid[0].n, "text",
                         valid[1].byte ? valid[1].byte : "", valid[1].n, "prompt_tokens",
                         (json_int_t)t->n_prompt, "tokens",
                         (json_int_t)(g->sequences[i].n - t->n_prompt), "end", t->end);
    if (status == PST_OK && !line) status = pst_no_memory("for a text as JSON");
    if (line && (json_dumpf(line, out, JSON_COMPACT) || fputc('\n', out) == EOF))
        status = cannot_write();
    json_decref(line);
    pst_text_free(&valid[0]);
    pst_text_free(&valid[1]);
    return status;
}

static pst_status write_json(const generator *g, FILE *out) {
    for (uint32_t i = 0; i < g->n; i++) PST_TRY(write_object(g, i, out));
    return PST_OK;
}

/* Several texts, each after a line with its number. */
static pst_status write_texts(const generator *g, FILE *out) {
    for (uint32_t i = 0; g->n > 1 && i < g->n; i++) {
        const pst_text *text = &g->texts[i].writer.text;
        if (fprintf(out, "[%u]\n", i + 1) < 0) return cannot_write();
        if (!g->prompts.chat) PST_TRY(write_prompt(g, i, out));
        if (fwrite(text->byte, 1, text->n, out) != text->n || fputc('\n', out) == EOF)
            return cannot_write();
    }
    return g->n > 1 || fputc('\n', out) != EOF ? PST_OK : cannot_write();
}

static void warn_of_stops(const generator *g) {
    uint32_t without = 0;
    for (uint32_t i = 0; i < g->n; i++) without += !g->texts[i].writer.stopped;
    if (g->o->n_stop && without == g->n && g->o->tokens)
        pst_log(PST_LOG_WARN, "no stop string occurred in %" PRId64 " tokens", g->o->tokens);
}

/* --- the command ------------------------------------------------------------------------------ */

static pst_status open_texts(generator *g, FILE *out) {
    g->texts = calloc(g->n, sizeof *g->texts);
    g->sequences = calloc(g->n, sizeof *g->sequences);
    if (!g->texts || !g->sequences) return pst_fail(PST_ENOMEM, "no memory for %u prompts", g->n);
    for (uint32_t i = 0; i < g->n; i++) PST_TRY(open_text(g, i, out));
    for (uint32_t i = 0; !g->o->tokens && i < g->n; i++) end(g, i, "tokens");
    return PST_OK;
}

/* Opens everything but the model's weights. */
static pst_status open_source(generator *g, FILE *out) {
    const pst_generate_options *o = g->o;
    PST_TRY(pst_source_open(o->source, o->base, &g->source));
    PST_TRY(pst_prompts_open(&g->source, o->chat, o->system, &g->prompts));
    PST_TRY(pst_source_model(&g->source, o->context, &g->model));
    return open_texts(g, out);
}

/* As many positions as the longest text can have, up to the context. */
static pst_decoder_options decoder_options(const generator *g, pst_world *world) {
    const pst_config *c = g->source.config;
    uint64_t most = 1;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->texts[i].n_prompt > most) most = g->texts[i].n_prompt;
    most += (uint64_t)g->o->tokens;
    return (pst_decoder_options){
        .sequences = g->n,
        .positions = most < g->model.context ? (uint32_t)most : g->model.context,
        .ranks = (uint32_t)g->o->ranks,
        .tensor = g->o->ranks > 1 && c->parallel.n_tensors < 2 ? (uint32_t)c->parallel.tensor : 1,
        .world = world};
}

static pst_status write_all(generator *g, FILE *out) {
    warn_of_stops(g);
    return g->o->json ? write_json(g, out) : write_texts(g, out);
}

/* world: that of the job, which is taken over; NULL: this process is alone. */
static pst_status generate(generator *g, pst_world *world, FILE *out) {
    const pst_generate_options *o = g->o;
    const pst_sampling how = {o->temperature, (uint64_t)o->top_k, o->top_p, o->min_p,
                              o->repetition_penalty};
    pst_status status = open_source(g, out);
    if (world) status = pst_group_agree_world(world, status);
    if (status != PST_OK && world) world->ops->close(world);
    PST_TRY(status);
    const pst_decoder_options options = decoder_options(g, world);
    PST_TRY(pst_decoder_open(&g->source, &options, &g->decoder));
    PST_TRY(pst_sampler_open(&how, g->source.tokenizer, g->decoder.vocabulary, &g->sampler));
    if (g->leads && g->n == 1 && !o->json && !g->prompts.chat) PST_TRY(write_prompt(g, 0, out));
    PST_TRY(run(g));
    return g->leads ? write_all(g, out) : PST_OK;
}

static void close_generator(generator *g, pst_status status) {
    for (uint32_t i = 0; g->texts && g->sequences && i < g->n; i++) {
        pst_writer_close(&g->texts[i].writer);
        free(g->sequences[i].token);
    }
    free(g->texts);
    free(g->sequences);
    pst_sampler_close(&g->sampler);
    pst_decoder_close(&g->decoder, status);
    pst_source_close(&g->source);
}

/* In a job of several ranks only rank 0 prints. */
static int writes(void) {
    const char *world = pst_registry_world()->name,
               *rank = getenv(strcmp(world, "tcp") ? "PMIX_RANK" : "RANK");
    return !strcmp(world, "single") || !rank || atoi(rank) == 0;
}

/* What would fail on all ranks, without the warnings, which rank 0 prints. */
static pst_status check_ranks(generator *g, FILE *out) {
    const pst_log_level before = pst_log_get_level();
    pst_log_set_level(PST_LOG_ERROR);
    pst_status status = open_source(g, out);
    if (status == PST_OK) {
        const pst_decoder_options options = decoder_options(g, NULL);
        status = pst_decoder_check(&g->source, &options);
    }
    pst_log_set_level(before);
    return status;
}

static pst_status generate_local(generator *g, FILE *out) {
    pst_launch_end end = {0};
    PST_TRY(check_ranks(g, out));
    PST_TRY(pst_launch_local((uint32_t)g->o->ranks, g->o->argv, 3000, &end));
    return pst_launch_ended(&end);
}

/* As a rank of a job. */
static pst_status generate_rank(generator *g, FILE *out) {
    pst_world *world;
    PST_TRY(pst_limits_of_process(2));
    PST_TRY(pst_registry_world()->open(&world));
    g->leads = world->rank == 0;
    pst_log_set_rank((int)world->rank);
    if (world->rank) pst_log_set_level(PST_LOG_ERROR);
    if (g->o->ranks == world->size) return generate(g, world, out);
    const uint32_t size = world->size;
    world->ops->close(world);
    return pst_fail(PST_EINPUT, "-n %" PRId64 ", but the launcher has started %u ranks",
                    g->o->ranks, size);
}

static pst_status generate_somewhere(generator *g, FILE *out) {
    const int single = !strcmp(pst_registry_world()->name, "single");
    if (g->o->ranks < 2 || (single && !g->o->argv)) return generate(g, NULL, out);
    return single ? generate_local(g, out) : generate_rank(g, out);
}

pst_status pst_generate(const pst_generate_options *options, FILE *out) {
    pst_generate_options o;
    PST_TRY(pst_sized_take("pst_generate", options, &o, sizeof o));
    PST_TRY(check_options(&o, out));
    if (o.ranks < 2 && !writes()) return PST_OK;
    generator g = {.o = &o, .n = o.n_prompts ? (uint32_t)o.n_prompts : 1, .leads = 1};
    pst_status status = generate_somewhere(&g, out);
    close_generator(&g, status);
    return status;
}
