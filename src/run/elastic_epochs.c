/* See elastic.h: a process of an elastic run joins the world of one epoch after the other, and
 * trains in it. */
#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "group/compare.h"
#include "run/elastic_parts.h"
#include "run/limits.h"
#include "run/saving.h"
#include "run/stop.h"
#include "run/train.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* How long a rank that has lost a peer waits for the launcher's next epoch: longer than the
 * launcher takes to give a stopped rank up. */
#define NEXT_NS UINT64_C(10000000000)

int pst_elastic_is_process(void) { return getenv("PENSTOCK_ELASTIC_FD") != NULL; }

/* The number of stages follows from the number of ranks. */
static pst_status config_of(const pst_config *given, uint32_t epoch, pst_config **c) {
    PST_TRY(pst_config_copy(given, c));
    pst_status status = epoch && given->parallel.pipeline
                            ? pst_config_override(*c, "parallel", "pipeline", "0")
                            : PST_OK;
    if (status != PST_OK) pst_config_close(*c);
    return status;
}

/* The file of this process with the state that the epoch begins with, from which others may still
 * read, is the last one to be overwritten. */
static void place_sides(pst_elastic *e) {
    const pst_elastic_state *state = &e->page->state[e->process][e->source % PST_ELASTIC_FILES];
    const int had_rank =
        e->source && pst_elastic_rank(e->page, e->source_epoch, e->process) != UINT32_MAX;
    e->first_file = had_rank ? 1 - state->file : 0;
    e->described[0] = e->described[1] = 0;
    e->commits = e->committed_ns = 0;
}

/* Rank 0 decides which state the epoch begins with. */
static pst_status choose_state(pst_elastic *e, pst_world *world) {
    pst_elastic_members *m = &e->page->member[e->epoch];
    if (e->page->hosts.n) {
        PST_TRY(pst_elastic_agree(&e->memory, world, &e->found));
        e->repeated = 0;
        e->source_epoch = e->found.source_epoch;
        e->number = e->source = m->source = e->found.source;
        place_sides(e);
        return PST_OK;
    }
    if (!world->rank) pst_elastic_newest(e->page, &m->source_epoch, &m->source);
    PST_TRY(world->ops->fence(world));
    e->source_epoch = m->source_epoch;
    e->number = e->source = m->source;
    place_sides(e);
    return PST_OK;
}

static pst_status join(pst_elastic *e, const pst_config *c, pst_world *world) {
    pst_log_set_rank((int)world->rank);
    PST_TRY(choose_state(e, world));
    pst_status status = pst_compare_ranks(world, c);
    return status == PST_EPEER ? status : pst_group_agree_world(world, status);
}

static pst_status train_epoch(pst_elastic *e, const pst_config *given, const pst_train_options *o) {
    pst_config *c;
    pst_world *world;
    sched_setaffinity(0, sizeof e->processors, &e->processors);
    e->leaves = e->stays = e->has_departed = 0;
    PST_TRY(config_of(given, e->epoch, &c));
    pst_status status = pst_elastic_world(e->page, e->epoch, e->process, &world);
    if (status == PST_OK) {
        status = join(e, c, world);
        if (status == PST_OK) status = pst_train_here(c, o, NULL, world, world->size, e);
        else {
            if (status != PST_EPEER) pst_train_report_once(world);
            world->ops->close(world);
        }
    }
    pst_config_close(c);
    pst_ckpt_close(e->ckpt);
    e->ckpt = NULL;
    pst_elastic_memory_close(&e->memory);
    e->memory.bytes = e->memory.ns = 0;
    return status;
}

/* --- the last state --------------------------------------------------------------------------- */

/* Why the run cannot go on with the processes that are left, and the fewest ranks with which it
 * could. */
static void explain_end(const pst_elastic *e, const pst_config *given, char *why, size_t bytes) {
    const uint32_t left = e->page->member[e->epoch].alive, min = pst_elastic_min(given);
    uint32_t table[PST_ELASTIC_RANKS + 1] = {0}, least = 1;
    while (least < e->page->known && e->page->ranks_of[least] != least) least++;
    pst_error_clear();
    if (left >= min) pst_elastic_find_ranks(given, 1, left, 0, table);
    snprintf(why, bytes, "%u process%s left; the run needs at least %u rank%s (%s%.300s)", left,
             left == 1 ? " is" : "es are", least, pst_plural(least),
             left < min ? "elastic.min" : "", left < min ? "" : pst_error());
}

static pst_status write_last(pst_elastic *e, const pst_config *given, const char *folder,
                             const pst_ckpt_info *info) {
    const uint32_t ranks = e->page->member[e->source_epoch].n_rank;
    pst_prepare_options options = {.n_rank = ranks,
                                   .smaller = 1,
                                   .twins = 1,
                                   .threads = 1,
                                   .n_eval_micro = pst_config_micros(given)};
    pst_prepared *p = NULL;
    pst_config *c;
    char *text;
    PST_TRY(pst_config_copy(given, &c));
    PST_TRY(pst_saving_config_text(given, &text));
    pst_status status =
        c->parallel.pipeline ? pst_config_override(c, "parallel", "pipeline", "0") : PST_OK;
    if (status == PST_OK) status = pst_prepare_kind(c, &options);
    if (status == PST_OK) status = pst_prepare(c, &options, &p);
    if (status == PST_OK) status = pst_elastic_write_state(e, folder, text, p->whole);
    if (status == PST_OK) pst_saving_prune(folder, given, info);
    pst_prepared_close(p);
    pst_config_close(c);
    free(text);
    return status;
}

/* The newest state that is complete, on all hosts. The launcher of a host does not know whether
 * there is one, so this process says it. */
static pst_status find_last(pst_elastic *e) {
    if (!e->page->hosts.n)
        return pst_elastic_newest(e->page, &e->source_epoch, &e->source)
                   ? PST_OK
                   : pst_fail(PST_EPEER, "no state is left to save");
    e->found = (pst_elastic_found){0};
    pst_elastic_enter(e->page, e->epoch);
    pst_status status = pst_elastic_find(&e->memory, &e->found);
    if (status == PST_OK && !e->found.source)
        status = pst_fail(PST_EPEER, "a part of its state went with a host");
    if (status == PST_OK && !e->found.has_folder)
        status = pst_fail(PST_EPEER, "the run has no folder yet");
    if (status != PST_OK) {
        const int known = e->found.has_folder;
        fprintf(stderr,
                "penstock: too few ranks are left, and the last step cannot be saved: %s%s%s\n",
                pst_error(), known ? "; resume with: penstock train --resume " : "",
                known ? e->found.folder : "");
        return PST_EPEER;
    }
    memcpy(e->page->folder, e->found.folder, sizeof e->found.folder);
    e->source_epoch = e->found.source_epoch;
    e->source = e->found.source;
    return PST_OK;
}

static pst_status save_last(pst_elastic *e, const pst_config *given) {
    char folder[PST_ELASTIC_FOLDER + 16], why[512];
    pst_ckpt_info info;
    PST_TRY(find_last(e));
    pst_elastic_state_info(e, &info);
    snprintf(folder, sizeof folder, "%s/checkpoints", e->page->folder);
    explain_end(e, given, why, sizeof why);
    pst_error_clear();
    const unsigned long long step = info.step;
    if (pst_ckpt_before(folder, 1, step + 1) != step) PST_TRY(write_last(e, given, folder, &info));
    return pst_fail(PST_ENOMEM,
                    "%s; step %llu is saved; when there are ranks: penstock train --resume %s -n N",
                    why, step, e->page->folder);
}

/* --- the epochs ------------------------------------------------------------------------------- */

/* SIGTERM was sent to this process, which has no rank, and not to the job. */
static int leaves_as_spare(const pst_elastic *e, uint32_t epoch) {
    const int has_rank = pst_elastic_rank(e->page, epoch, e->process) != UINT32_MAX;
    return !has_rank && pst_stop_requests() & PST_STOP_TERMINATE &&
           !atomic_load(&e->page->is_stopping);
}

/* Waits for the first epoch from `from` on in which this process has a rank, or for the end of the
 * job: 0. limit_ns: to wait for the announcement of epoch `from`. */
static int next_epoch(pst_elastic *e, uint32_t from, uint64_t limit_ns) {
    const uint64_t began = pst_monotonic_ns();
    const struct timespec pause = {.tv_nsec = 500000};
    if (!atomic_exchange(&e->page->waits[e->process], 1)) pst_elastic_wake(e->page);
    for (;;) {
        if (atomic_load(&e->page->end) != PST_ELASTIC_RUNS) return 0;
        const uint32_t epoch = atomic_load(&e->page->epoch);
        if (epoch >= from && pst_elastic_rank(e->page, epoch, e->process) != UINT32_MAX) {
            e->epoch = epoch;
            return 1;
        }
        if (epoch < from && pst_monotonic_ns() - began > limit_ns) return 0;
        if (epoch >= from && leaves_as_spare(e, epoch)) _exit(PST_ELASTIC_LEFT);
        if (atomic_load(&e->page->leaves[e->process])) _exit(PST_ELASTIC_LEFT);
        nanosleep(&pause, NULL);
    }
}

/* One fault is injected, not one after each loss. */
static pst_status train_epochs(pst_elastic *e, const pst_config *c, const pst_train_options *o) {
    const uint32_t first = e->page->first[e->process];
    uint64_t limit = PST_NEVER;
    for (uint32_t next = first; next_epoch(e, next, limit); next = e->epoch + 1) {
        if (e->epoch) unsetenv("PENSTOCK_FAULT");
        if (e->page->member[e->epoch].is_save) return save_last(e, c);
        pst_status status = train_epoch(e, c, o);
        if (status != PST_EPEER && !e->has_departed) return status;
        limit = NEXT_NS;
        pst_error_clear();
    }
    return atomic_load(&e->page->end) == PST_ELASTIC_DONE ? PST_OK : PST_EPEER;
}

/* A process that is started later must be of the same build, with the same run file. */
static pst_status check_identity(const pst_elastic *e) {
    uint64_t mine, first = 0;
    PST_TRY(pst_compare_identity(e->given, &mine));
    if (atomic_compare_exchange_strong(&e->page->identity, &first, mine) || first == mine)
        return PST_OK;
    return pst_fail(PST_EINPUT, "a process that was started for this run has another build of "
                                "penstock or another run file than the run began with, and "
                                "cannot take part");
}

pst_status pst_elastic_train(const pst_config *c, const pst_train_options *o) {
    pst_elastic e = {.given = c};
    pst_stop_before before;
    PST_TRY(pst_limits_of_process(2));
    PST_TRY(pst_elastic_map(&e.page, &e.process));
    e.memory.page = e.page;
    PST_TRY(check_identity(&e));
    sched_getaffinity(0, sizeof e.processors, &e.processors);
    pst_stop_open(&before, 0);
    pst_status status = train_epochs(&e, c, o);
    pst_stop_close(&before);
    munmap(e.page, sizeof *e.page);
    return status;
}
