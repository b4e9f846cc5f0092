/* See prepare/problem.h. */
#include "prepare/problem.h"
#include "base/arena.h"
#include <stdlib.h>
#include <string.h>

static void close_schedules(pst_prepare_problems *x) {
    for (uint32_t i = 0; x->schedule && i < x->n; i++) {
        pst_schedule_close(x->schedule[i]);
        x->schedule[i] = NULL;
    }
}

void pst_prepare_problems_close(pst_prepare_problems *x) {
    close_schedules(x);
    for (uint32_t i = 0; x->of && i < x->n; i++) {
        free(x->of[i].ns);
        free(x->of[i].limit);
    }
    free(x->of);
    free(x->schedule);
    free(x->hop);
    free(x->held);
}

static uint32_t micros_of(const pst_prepared *p, uint32_t rank) {
    uint32_t k = pst_grid_at(p->grid, rank).replica;
    return p->micro[k + 1] - p->micro[k];
}

/* The part of a chunk's stash to which a class belongs; NULL: none, because it lives within one
 * pass or is a message. */
static uint64_t *part_of(pst_held *held, const pst_cut_class *k) {
    int to_w = k->deaths >> PST_EV_W & 1, to_b = k->deaths >> PST_EV_B & 1;
    if (k->birth >= PST_EV_RECV_B) return to_w ? &held->b_w : NULL;
    if (to_w) return &held->f_w;
    return to_b ? &held->f_b : NULL;
}

/* The longest message across each boundary and direction: the messages of a boundary are sent in
 * parallel. */
static void time_hops(const pst_prepared *p, pst_hop_ns *hop) {
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        const pst_instr_list *list = &p->job->list[r];
        for (uint32_t i = list->n_head; i < list->n_instr - list->n_flush; i++) {
            const pst_instr *in = &list->instr[i];
            if (in->opcode != PST_OP_SEND || in->local == PST_NONE || in->micro) continue;
            int down = p->cut->tape->value[p->cut->chunk[in->chunk].local[in->local].value].kind ==
                       PST_VALUE_GRAD;
            uint64_t *ns = down ? &hop[in->chunk - 1].backward : &hop[in->chunk].forward;
            if (in->ns > *ns) *ns = in->ns;
        }
    }
}

/* Bytes of a rank's memory apart from stashes. */
static uint64_t fixed_bytes(const pst_prepared *p, uint32_t rank) {
    const pst_cut *cut = p->cuts[pst_grid_at(p->grid, rank).tensor];
    const pst_slots *slots = p->slots[pst_grid_lane(p->grid, rank)];
    uint64_t bytes = p->memory[rank]->total;
    pst_held none;
    for (uint32_t k = 0; k < cut->n_class; k++)
        if (p->job->rank_of_chunk[cut->class_[k].chunk] == pst_grid_at(p->grid, rank).stage &&
            part_of(&none, &cut->class_[k]))
            bytes -= pst_align(cut->class_[k].bytes) * slots->class_[k].n_slot;
    return bytes;
}

/* The tensor rank that needs most memory. */
static void fill_held(const pst_prepared *p, pst_held *held) {
    for (uint32_t k = 0; k < p->cut->n_class; k++) {
        const pst_cut_class *class_ = &p->cut->class_[k];
        uint64_t *part = part_of(&held[class_->chunk], class_), bytes = 0;
        for (uint32_t t = 0; t < p->grid.tensor; t++)
            if (p->cuts[t]->class_[k].bytes > bytes) bytes = p->cuts[t]->class_[k].bytes;
        if (part) *part += pst_align(bytes);
    }
}

static uint64_t longer(uint64_t a, uint64_t b) { return a > b ? a : b; }

static pst_status fill_replicas(const pst_prepared *p, uint64_t limit,
                                const pst_prepare_problems *all, pst_prepare_replicas *x) {
    uint32_t n = p->cut->n_chunk, stages = p->grid.pipeline;
    x->ns = calloc(n, sizeof *x->ns);
    x->limit = malloc(stages * sizeof *x->limit);
    if (!x->ns || !x->limit)
        return pst_fail(PST_ENOMEM, "no memory to solve a schedule of %u chunks", n);
    memset(x->limit, 0xff, stages * sizeof *x->limit);
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        uint32_t stage = pst_grid_at(p->grid, r).stage;
        if (micros_of(p, r) != x->n_micro) continue;
        uint64_t usable = pst_prepare_usable_bytes(p, limit, r), fixed = fixed_bytes(p, r);
        uint64_t left = usable > fixed ? usable - fixed : 0;
        if (left < x->limit[stage]) x->limit[stage] = left;
        for (uint32_t k = 0; k < n; k++) {
            const pst_program *program = p->cut->chunk[k].program;
            if (p->schedule->rank_of_chunk[k] != stage) continue;
            x->ns[k] =
                (pst_pass_ns){longer(x->ns[k].f, pst_job_slowed(p->job, r, program[PST_OP_F].ns)),
                              longer(x->ns[k].b, pst_job_slowed(p->job, r, program[PST_OP_B].ns)),
                              longer(x->ns[k].w, pst_job_slowed(p->job, r, program[PST_OP_W].ns))};
        }
    }
    x->problem = (pst_solve_problem){.n_rank = stages,
                                     .n_chunk = n,
                                     .n_micro = x->n_micro,
                                     .rank_of_chunk = p->schedule->rank_of_chunk,
                                     .ns = x->ns,
                                     .hop = all->hop,
                                     .held = all->held,
                                     .limit = x->limit};
    return PST_OK;
}

pst_status pst_prepare_problems_open(const pst_prepared *p, uint64_t limit,
                                     pst_prepare_problems *x) {
    uint32_t n = p->cut->n_chunk;
    *x = (pst_prepare_problems){.of = calloc(p->grid.data, sizeof *x->of),
                                .schedule = calloc(p->grid.data, sizeof *x->schedule),
                                .hop = calloc(n, sizeof *x->hop),
                                .held = calloc(n, sizeof *x->held)};
    if (!x->of || !x->schedule || !x->hop || !x->held)
        return pst_fail(PST_ENOMEM, "no memory to solve a schedule of %u chunks", n);
    time_hops(p, x->hop);
    fill_held(p, x->held);
    for (uint32_t k = 0; k < p->grid.data; k++) {
        uint32_t n_micro = p->schedules[k]->n_micro, i = 0;
        while (i < x->n && x->of[i].n_micro != n_micro) i++;
        if (i < x->n) continue;
        x->of[x->n++].n_micro = n_micro;
        PST_TRY(fill_replicas(p, limit, x, &x->of[i]));
    }
    return PST_OK;
}

int pst_prepare_problems_tighten(const pst_prepared *p, uint64_t limit, pst_prepare_problems *x) {
    int taken = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        uint64_t usable = pst_prepare_usable_bytes(p, limit, r), needs = p->memory[r]->total;
        for (uint32_t i = 0; needs > usable && i < x->n; i++) {
            uint64_t *of = &x->of[i].limit[pst_grid_at(p->grid, r).stage];
            if (x->of[i].n_micro != micros_of(p, r)) continue;
            if (needs - usable > *of) return 0;
            *of -= needs - usable;
            taken = 1;
        }
    }
    return taken;
}

pst_status pst_prepare_problems_solve(pst_prepare_problems *x, uint32_t budget_divisor,
                                      uint64_t *bound_ns) {
    uint64_t most = 0;
    close_schedules(x);
    for (uint32_t i = 0; i < x->n; i++) {
        pst_solved found;
        x->of[i].problem.budget_divisor = budget_divisor;
        PST_TRY(pst_schedule_solve(&x->of[i].problem, &x->schedule[i], &found));
        most = longer(most, found.bound_ns);
    }
    *bound_ns = most;
    return PST_OK;
}
