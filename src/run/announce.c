/* What a run says before its first step: what it is, what is predicted, and what may not be as it
 * was meant. */
#include "base/log.h"
#include "base/plural.h"
#include "group/placement.h"
#include "run/announce.h"
#include "run/collectives.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

int pst_announce_crowd(const pst_trainer *t, pst_sharing *crowd) {
    pst_world *w = t->group->world;
    if (w->size == 1) return 0;
    *crowd = pst_placement_worst_in_world(w);
    return (uint64_t)crowd->ranks * t->p->options.threads > crowd->processors;
}

/* No fault, but slow. */
static void say_crowded(const pst_trainer *t) {
    uint32_t threads = t->p->options.threads;
    pst_sharing g;
    if (!pst_announce_crowd(t, &g)) return;
    printf("crowded:   %u ranks of %u thread%s take turns on %u processor%s of %s\n", g.ranks,
           threads, pst_plural(threads), g.processors, pst_plural(g.processors),
           t->group->world->host);
}

/* How messages get to and from a device that the host cannot reach. */
static void say_messages(const pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    if (!r->far || t->group->hub || t->p->options.n_rank == 1) return;
    if (pst_rank_transport_reaches(r->transport, r->device->ops))
        printf("messages:  straight from the memory of %s\n", r->device->ops->name);
    else if (!strcmp(t->config->parallel.transport, "nccl")) printf("messages:  by nccl\n");
    else printf("messages:  through pinned memory of the host\n");
}

/* With one chunk per rank a gradient slot is as large as the accumulators that it replaces. */
static void say_unshared(const pst_prepared *p) {
    int64_t most = INT64_MIN;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->gradient_saved > most) most = p->memory[r]->gradient_saved;
    if (p->job->zero != 2 || most > 0) return;
    pst_log(PST_LOG_WARN,
            "parallel.zero 2 saves no memory here: every rank has the gradients of its largest "
            "chunk more than once; use "
            "parallel.zero=1, or more parallel.chunks with a schedule that takes them");
}

void pst_announce_warmup(const pst_config *c) {
    if (c->train.warmup_cut)
        pst_log(PST_LOG_WARN,
                "train.warmup is %lld, but train.steps is %lld: the learning rate rises over all "
                "of them",
                (long long)c->train.warmup_cut, (long long)c->train.steps);
}

static void say_unread(const pst_config *c) {
    char text[200];
    for (size_t next = 0; pst_config_unread(c, &next, text, sizeof text);)
        pst_log(PST_LOG_WARN, "%s", text);
}

/* Who asks for another evaluation when the run is done may want nothing else. */
static int only_evaluates(const pst_config *c) {
    return pst_config_overridden(c, "eval", "tokens") || pst_config_overridden(c, "eval", "sets");
}

/* What may not be as it was meant. */
static void warn(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    if (t->study)
        pst_log(PST_LOG_WARN,
                "device timed computes nothing: no losses, no weights, no checkpoints, times only");
    if (p->micro[1] < p->grid.pipeline)
        pst_log(
            PST_LOG_WARN,
            "%u micro-batches cannot fill %u stages: %.0f%% of the time is bubble; use a smaller "
            "train.micro_batch or a larger train.batch",
            p->micro[1], p->grid.pipeline, p->timing->bubble * 100);
    say_unshared(p);
    /* The copy of a run gives every key: what it says was said when that run began. */
    if (!*t->resume || pst_config_overridden(t->config, "train", "warmup"))
        pst_announce_warmup(t->config);
    say_unread(t->config);
    pst_collectives_say(p);
    if (t->step >= (uint64_t)t->config->train.steps)
        pst_log(only_evaluates(t->config) ? PST_LOG_INFO : PST_LOG_WARN,
                "nothing is left to train: the checkpoint is of step %llu, train.steps is %lld",
                (unsigned long long)t->step, (long long)t->config->train.steps);
}

void pst_announce_run(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    uint64_t params = 0, most = 0;
    char grid[PST_GRID_TEXT];
    if (!t->group->leader) return;
    warn(t);
    if (t->options->quiet) return;
    for (uint32_t i = 0; i < p->whole->n_param; i++)
        params += pst_param_elements(p->whole->param + i);
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        most = p->memory[r]->total > most ? p->memory[r]->total : most;
    pst_grid_text(p->grid, grid);
    printf("%s: %s, %.2f M parameters, %s, %u rank%s", t->folder, p->graph->name,
           (double)params / 1e6, t->config->train.precision, p->options.n_rank,
           pst_plural(p->options.n_rank));
    if (*grid) printf(" (%s)", grid);
    printf(" of %u thread%s, %s, %u micro-batches of %u\n", p->options.threads,
           pst_plural(p->options.threads), p->plan->layout.schedule, p->plan->layout.n_micro,
           p->plan->layout.micro_batch);
    if (*p->solved) printf("schedule:  solved, %s\n", p->solved);
    printf("predicted: bubble %.1f%%, arena %.1f MiB on the largest rank\n",
           p->timing->bubble * 100, (double)most / 1048576.0);
    say_messages(t);
    say_crowded(t);
    if (t->step) printf("resumed after step %llu\n", (unsigned long long)t->step);
    fflush(stdout);
}
