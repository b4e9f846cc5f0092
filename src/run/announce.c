/* What a run prints before its first step: what it is, what is predicted, and warnings. */
#include "base/log.h"
#include "base/plural.h"
#include "group/placement.h"
#include "run/announce.h"
#include "run/collectives.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

int pst_announce_oversubscribed(const pst_trainer *t, pst_sharing *sharing) {
    pst_world *w = t->group->world;
    if (w->size == 1) return 0;
    *sharing = pst_placement_worst_in_world(w);
    return (uint64_t)sharing->ranks * t->p->options.threads > sharing->processors;
}

/* Not an error, but slow. */
static void print_oversubscribed(const pst_trainer *t) {
    uint32_t threads = t->p->options.threads;
    pst_sharing g;
    if (!pst_announce_oversubscribed(t, &g)) return;
    printf("oversubscribed: %u ranks of %u thread%s share %u processor%s of %s\n", g.ranks, threads,
           pst_plural(threads), g.processors, pst_plural(g.processors), t->group->world->host);
}

/* The path of messages in device memory that the host cannot access. */
static void print_messages(const pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    if (!r->on_device || t->group->hub || t->p->options.n_rank == 1) return;
    if (pst_rank_transport_reaches(r->transport, r->device->ops))
        printf("messages:  directly from device memory (%s)\n", r->device->ops->name);
    else if (!strcmp(t->config->parallel.transport, "nccl")) printf("messages:  over NCCL\n");
    else printf("messages:  through pinned host memory\n");
}

static void print_codec(const char *what, pst_codec codec) {
    printf("%s %s", what, pst_codec_name(codec.kind));
    if (codec.kind == PST_CODEC_POWERSGD) printf(" of rank %u", codec.rank);
    else if (codec.kind != PST_CODEC_BF16) printf(" in blocks of %u", codec.block);
}

static void print_updates(const pst_job *job) {
    if (job->async)
        printf("updates:   for the gradients of each replica when they arrive (parallel.update)\n");
    if (job->staleness)
        printf("updates:   of the gradients of %u step%s before (parallel.update)\n",
               job->staleness, pst_plural(job->staleness));
}

/* Whether any boundary between stages has packed messages. */
static int packs_stages(const pst_prepared *p) {
    const uint8_t *packs = p->cut->packing.packs;
    int any = 0;
    for (uint32_t k = 0; packs && k + 1 < p->cut->n_chunk; k++) any |= packs[k];
    return any;
}

static void print_compression(const pst_prepared *p) {
    const int replicas = p->job->up.kind != PST_CODEC_NONE || p->job->down.kind != PST_CODEC_NONE;
    const int stages = packs_stages(p);
    const char *between = stages ? "stages" : "replicas";
    if (p->grid.data > 1 && stages) between = "stages and replicas";
    if (p->compression <= 1) return;
    printf("compress:  ");
    if (p->job->up.kind != PST_CODEC_NONE)
        print_codec(p->job->up.moments ? "steps of replicas as" : "gradients as", p->job->up);
    if (p->job->up.kind != PST_CODEC_NONE && p->job->down.kind != PST_CODEC_NONE) printf(", ");
    if (p->job->down.kind != PST_CODEC_NONE) print_codec("changes of weights as", p->job->down);
    const int islands = p->job->islands_codec.kind != PST_CODEC_NONE;
    if (islands) print_codec("differences of islands as", p->job->islands_codec);
    if ((replicas || islands) && stages) printf(", ");
    if (stages) print_codec("activations as", p->cut->packing.codec);
    printf("; messages between %s have %.1f%% of the bytes\n", between, 100 / p->compression);
    if (p->config->parallel.compress.after)
        printf("           from step %lld on\n", (long long)p->config->parallel.compress.after + 1);
}

static int packs_any(const pst_job *job) {
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            if (job->list[r].instr[i].packed) return 1;
    return 0;
}

/* parallel.compress.stages without any message that gets smaller. */
static void warn_of_stages(const pst_prepared *p) {
    if (!strcmp(p->config->parallel.compress.stages, "none")) return;
    if (p->grid.pipeline == 1)
        pst_log(PST_LOG_WARN, "parallel.compress.stages has no effect without parallel.pipeline: "
                              "one stage sends no activations");
    else if (!packs_stages(p))
        pst_log(PST_LOG_WARN,
                "parallel.compress.stages packs nothing: no neighbouring stages are on different "
                "hosts; parallel.compress.links=all packs on one host, too");
}

/* parallel.compress without any message that gets smaller. */
static void warn_of_compression(const pst_prepared *p) {
    if (!strcmp(p->config->parallel.compress.up, "none") &&
        !strcmp(p->config->parallel.compress.down, "none"))
        return;
    if (p->grid.data == 1)
        pst_log(PST_LOG_WARN, "parallel.compress has no effect without parallel.data: one replica "
                              "sends no gradients");
    else if (p->compression > 1) return;
    else if (p->job->up.kind == PST_CODEC_POWERSGD && packs_any(p->job))
        pst_log(PST_LOG_WARN,
                "parallel.compress packs nothing: with parallel.compress.rank=%lld no gradient "
                "gets parallel.compress.min_rate (%g) times smaller; use a lower rank or min_rate",
                (long long)p->config->parallel.compress.rank,
                p->config->parallel.compress.min_rate);
    else if (!strcmp(p->config->parallel.compress.links, "all"))
        pst_log(PST_LOG_WARN, "parallel.compress packs nothing: all parameters are smaller than "
                              "parallel.compress.min_bytes");
    else
        pst_log(PST_LOG_WARN,
                "parallel.compress packs nothing: no replicas of a parameter of at least "
                "parallel.compress.min_bytes are on several hosts; parallel.compress.links=all "
                "packs on one host, too");
}

static void print_exchange(const pst_prepared *p) {
    char text[PST_NEAR_TEXT];
    if (*pst_prepare_near_text(p, text)) printf("exchange:  %s\n", text);
}

static void warn_of_exchange(const pst_prepared *p) {
    const char *why = pst_prepare_near_missed(p);
    if (why) pst_log(PST_LOG_WARN, "parallel.exchange=two-level has no effect: %s", why);
}

static void warn_of_islands(const pst_prepared *p) {
    const int adds_gradients = p->config->parallel.local.steps && p->job->islands == 1;
    if (adds_gradients && p->grid.data > 1 && strcmp(p->config->parallel.local.compress, "none"))
        pst_log(PST_LOG_WARN,
                "parallel.local.compress has no effect: with these keys islands of one step would "
                "have the bits of parallel.zero=1, so gradients are added instead; "
                "parallel.compress.up packs these, without parallel.local");
    if (p->n_turns && p->config->eval.every > 0)
        pst_log(PST_LOG_WARN,
                "eval.every: with parallel.local.fragments or delay islands have the same weights, "
                "and are evaluated, only after the last step");
    if (p->config->parallel.local.steps && p->grid.data == 1)
        pst_log(PST_LOG_WARN, "parallel.local has no effect without parallel.data: replicas are "
                              "islands, and there is only one");
}

static void warn_of_updates(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    const pst_config *c = p->config;
    const uint64_t steps = (uint64_t)c->train.steps, wait = p->job->staleness - t->pending;
    if (p->job->staleness && t->step < steps && t->step + wait >= steps)
        pst_log(PST_LOG_WARN,
                "parallel.staleness is %u, so none of the %llu step%s of this run changes the "
                "weights; use a smaller parallel.staleness or more train.steps",
                p->job->staleness, (unsigned long long)(steps - t->step),
                pst_plural(steps - t->step));
    if (p->job->staleness && p->job->zero && !p->grid.servers)
        pst_log(PST_LOG_INFO,
                "parallel.update=delayed hides the exchange of gradients only: with "
                "parallel.zero=1 new weights come back before passes read them; parallel.zero=0 "
                "hides sums, too, with optimizer state for all parameters on every replica");
    const int bounded = !strcmp(c->parallel.update, "bounded");
    if (!p->job->staleness && !bounded && c->parallel.staleness != 1)
        pst_log(PST_LOG_WARN, "parallel.staleness has no effect with parallel.update=%s",
                c->parallel.update);
}

/* Why weights wait for the gradients of all pieces. */
static void warn_of_servers(const pst_prepared *p) {
    if (!p->grid.servers || p->job->eager || p->job->staleness || p->job->async) return;
    pst_log(
        PST_LOG_WARN,
        "parallel.servers send weights back only when all gradients have arrived, which takes "
        "longer than without servers: train.clip, post_validation, optimizers of whole "
        "parameters or with states in bf16 need all of them; use train.clip=0 and adamw or sgd");
}

/* With one chunk per rank, the gradient buffer of ZeRO stage 2 is as large as the accumulators that
 * it replaces. */
static void warn_of_zero(const pst_prepared *p) {
    int64_t most = INT64_MIN;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->gradient_saved > most) most = p->memory[r]->gradient_saved;
    if (p->job->zero != 2 || most > 0) return;
    pst_log(PST_LOG_WARN,
            "parallel.zero 2 saves no memory here: the buffer for gradients before their reduction "
            "is as large as all gradients of a rank; use parallel.zero=1, or more parallel.chunks "
            "with a schedule for several chunks");
}

/* Equally fast replicas of which some have a micro-batch more. */
static void warn_of_unequal(const pst_prepared *p) {
    uint32_t data = p->grid.data, n = p->micro[data];
    if (n % data == 0 || pst_config_given(p->config, "parallel", "replicas")) return;
    for (uint32_t k = 1; k < data; k++)
        if (pst_prepare_speed(p, k) != pst_prepare_speed(p, 0)) return;
    pst_log(PST_LOG_WARN,
            "%u micro-batches cannot be divided evenly among %u replicas: some have %u, the others "
            "have %u and wait in every step; use a train.batch that is a multiple of "
            "train.micro_batch x parallel.data",
            n, data, n / data + 1, n / data);
}

void pst_announce_warmup(const pst_config *c) {
    if (c->train.warmup_cut)
        pst_log(PST_LOG_WARN,
                "train.warmup is %lld, but train.steps is only %lld: the learning rate rises until "
                "the last step",
                (long long)c->train.warmup_cut, (long long)c->train.steps);
}

/* The run is shorter than the growth of its batch. */
static void warn_of_batches(const pst_prepared *p) {
    const pst_batches *b = &p->batches;
    const uint64_t steps = (uint64_t)p->config->train.steps;
    if (b->row[b->n - 1].step < steps) return;
    pst_log(PST_LOG_WARN,
            "train.batch_warmup lasts %llu steps, but train.steps is only %llu: the last step has "
            "%llu of %lld samples",
            (unsigned long long)b->row[b->n - 1].step, (unsigned long long)steps,
            (unsigned long long)pst_batches_size(b, steps - 1), (long long)p->config->train.batch);
}

static void warn_of_unread(const pst_config *c) {
    char text[300];
    for (size_t next = 0; pst_config_unused(c, &next, text, sizeof text);)
        pst_log(PST_LOG_WARN, "%s", text);
}

/* If the user only wants another evaluation of a complete run, "no steps left" is not a warning. */
static int only_evaluates(const pst_config *c) {
    return pst_config_overridden(c, "eval", "tokens") || pst_config_overridden(c, "eval", "sets");
}

/* Settings that may not have the intended effect. */
static void warn(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    if (t->times_only)
        pst_log(PST_LOG_WARN,
                "device timed computes nothing: no losses, no weights, no checkpoints, times only");
    if (p->micro[1] < p->grid.pipeline)
        pst_log(
            PST_LOG_WARN,
            "%u micro-batches cannot fill %u stages: %.0f%% of the time is bubble; use a smaller "
            "train.micro_batch or a larger train.batch",
            p->micro[1], p->grid.pipeline, p->timing->bubble * 100);
    warn_of_zero(p);
    warn_of_servers(p);
    warn_of_compression(p);
    warn_of_stages(p);
    warn_of_exchange(p);
    warn_of_islands(p);
    warn_of_updates(t);
    warn_of_unequal(p);
    warn_of_batches(p);
    /* The run file of a resumed run has every key: its warnings were printed when that run
     * began. */
    if (!*t->resume || pst_config_overridden(t->config, "train", "warmup"))
        pst_announce_warmup(t->config);
    warn_of_unread(t->config);
    pst_collectives_advise(p);
    if (t->step >= (uint64_t)t->config->train.steps)
        pst_log(only_evaluates(t->config) ? PST_LOG_INFO : PST_LOG_WARN,
                "no steps left to train: the checkpoint is of step %llu, train.steps is %lld",
                (unsigned long long)t->step, (long long)t->config->train.steps);
}

/* Those of adapters are not a part of the model. */
static void print_parameters(const pst_graph *g) {
    uint64_t own = 0, adapters = 0, trained = 0;
    for (uint32_t i = 0; i < g->n_param; i++) {
        const uint64_t n = pst_param_elements(g->param + i);
        *(g->param[i].adapter ? &adapters : &own) += n;
        if (!g->param[i].frozen) trained += n;
    }
    printf("%.2f M parameters", (double)own / 1e6);
    if (adapters) printf(" and %.2f M of adapters", (double)adapters / 1e6);
    if (trained != own + adapters) printf(" (%.2f M trained)", (double)trained / 1e6);
}

static void print_batches(const pst_prepared *p) {
    const pst_batches *b = &p->batches;
    if (b->n < 2) return;
    printf("batch:     %llu sample%s at first, %llu from step %llu on; the prediction below is for "
           "the latter\n",
           (unsigned long long)b->row[0].size, pst_plural(b->row[0].size),
           (unsigned long long)b->row[b->n - 1].size,
           (unsigned long long)b->row[b->n - 1].step + 1);
}

void pst_announce_run(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    uint64_t most = 0;
    char grid[PST_GRID_TEXT], rest[PST_LAYOUT_REST_TEXT];
    if (!t->group->leader) return;
    warn(t);
    if (t->options->quiet) return;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        most = p->memory[r]->total > most ? p->memory[r]->total : most;
    pst_grid_text(p->grid, grid);
    printf("%s: %s, ", t->folder, p->graph->name);
    print_parameters(p->whole);
    printf(", %s, %u rank%s", t->config->train.precision, p->options.n_rank,
           pst_plural(p->options.n_rank));
    if (*grid) printf(" (%s)", grid);
    printf(" of %u thread%s, %s, %u micro-batch%s of %u sample%s%s\n", p->options.threads,
           pst_plural(p->options.threads), p->plan->layout.schedule, p->plan->layout.n_micro,
           pst_plural_es(p->plan->layout.n_micro), p->plan->layout.micro_batch,
           pst_plural(p->plan->layout.micro_batch), pst_layout_rest_text(&p->plan->layout, rest));
    print_batches(p);
    if (*p->solved) printf("schedule:  solved, %s\n", p->solved);
    printf("predicted: bubble %.1f%%, arena %.1f MiB on the largest rank\n",
           p->timing->bubble * 100, (double)most / 1048576.0);
    print_messages(t);
    print_updates(p->job);
    print_exchange(p);
    print_compression(p);
    print_oversubscribed(t);
    if (t->step) printf("resumed after step %llu\n", (unsigned long long)t->step);
    fflush(stdout);
}
