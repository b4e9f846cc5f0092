/* A lower bound on the makespan of all orders. For every pass: its head, before which it cannot
 * start, and its tail, the time that must follow its end. Both grow with the passes that must run
 * before (after) it on the same rank, as the dependencies and the memory limit imply: these run one
 * after another, none before its own head. The bound is the longest head + pass + tail, and
 * Jackson's preemptive schedule of every rank (Carlier and Pinson, EJOR 78, 1994). Then the bound
 * is raised by destructive probing: assume a makespan between bound and best solution as a
 * deadline. Of two passes of a rank that cannot run in one order, the other order follows, so heads
 * and tails grow again; a contradiction proves that no order meets the deadline (destructive
 * bounds: Klein and Scholl, EJOR 112, 1999). */
#include "pipeline/solve/parts.h"
#include <stdlib.h>
#include <string.h>

/* What is known of every pass, [direction]: 0 what precedes it, 1 what follows it. */
typedef struct {
    uint64_t *head[2]; /* [n_op] */
    /* [n_op][per_rank] how many passes of each queue of its rank must precede (follow) it */
    uint32_t *counts[2];
} facts;

typedef struct {
    const pst_solver *s;
    facts now, base;
    uint64_t deadline; /* SOLVE_NEVER: none */
    int contradiction, changed;
} prover;

static uint32_t *counts_of(const prover *b, int d, size_t op) {
    return b->now.counts[d] + op * b->s->per_rank;
}

/* --- precedence from dependencies and memory -------------------------------------------------- */

/* Whether pass a of a micro-batch must run before its pass b. */
static int comes_before(uint32_t a, uint32_t b) {
    uint32_t chunk_a = a / SOLVE_KINDS, chunk_b = b / SOLVE_KINDS, kind_a = a % SOLVE_KINDS,
             kind_b = b % SOLVE_KINDS;
    if (kind_a == SOLVE_W || a == b) return 0;
    if (kind_a == SOLVE_F) return kind_b == SOLVE_F ? chunk_a < chunk_b : 1;
    return kind_b == SOLVE_B ? chunk_a > chunk_b : kind_b == SOLVE_W && chunk_a >= chunk_b;
}

static void add_dependencies(prover *b, uint32_t queue) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)s->rank_of[queue] * s->per_rank;
    for (uint32_t m = 0; m < s->n_micro; m++) {
        uint32_t *before = counts_of(b, 0, (size_t)queue * s->n_micro + m),
                 *after = counts_of(b, 1, (size_t)queue * s->n_micro + m);
        for (uint32_t k = 0; k < s->per_rank; k++) {
            before[k] = comes_before(of[k], queue) ? m + 1 : 0;
            after[k] = comes_before(queue, of[k]) ? s->n_micro - m : 0;
            if (of[k] != queue) continue;
            before[k] = m;
            after[k] = s->n_micro - 1 - m;
        }
    }
}

/* `slots` limit: pass m + slots of `later` waits for pass m of `earlier`. */
static void add_slots(prover *b, uint32_t later, uint32_t earlier, uint64_t slots) {
    const pst_solver *s = b->s;
    for (uint64_t m = slots; m < s->n_micro; m++) {
        uint32_t i = (uint32_t)(m - slots);
        uint32_t *before = counts_of(b, 0, (size_t)later * s->n_micro + m) + s->place_of[earlier];
        uint32_t *after = counts_of(b, 1, (size_t)earlier * s->n_micro + i) + s->place_of[later];
        if (i + 1 > *before) *before = i + 1;
        if (s->n_micro - (uint32_t)m > *after) *after = s->n_micro - (uint32_t)m;
    }
}

/* Returns how many items of size `each` fit in addition to `beside`; UINT32_MAX: any number, or
 * unknown. */
static uint64_t fitting(uint64_t limit, uint64_t beside, uint64_t each) {
    return each && limit >= beside ? (limit - beside) / each : UINT32_MAX;
}

/* Which passes of chunk a the F and B of chunk c must wait for, both on one rank, because of the
 * memory limit. until_c (until_a): what a micro-batch holds of the rank's chunks up to c (a)
 * between its F of that chunk and its B of it.
 *
 * Suppose pass x of chunk a has not run, nor have those after it. When micro-batch m starts F or B
 * of chunk c, it holds until_c itself, and micro-batches x to m - 1 (or m)
 *
 * - hold chunk a from their F of it to W, partly before and partly after B; these have run if a <=
 * c, or a >= c in the backward part;
 * - hold all chunks up to a before their B of it, if a <= c;
 * - hold all chunks up to c as long as x has not run B of a later chunk a: x holds those up to a as
 * well, or will when it gets there, and no later micro-batch can have released anything by then. */
static void add_pair(prover *b, uint32_t c, uint32_t a, uint64_t until_c, uint64_t until_a) {
    const pst_solve_problem *p = b->s->problem;
    const pst_held *of_c = &p->held[c], *of_a = &p->held[a];
    uint64_t limit = p->limit[p->rank_of_chunk[c]], w_a = of_a->f_w + of_a->b_w,
             begins_b = until_c + of_c->b_w;
    uint64_t least_a = of_a->f_w + (of_a->f_b < of_a->b_w ? of_a->f_b : of_a->b_w);
    uint32_t f_c = c * SOLVE_KINDS + SOLVE_F, b_c = f_c + SOLVE_B, b_a = a * SOLVE_KINDS + SOLVE_B;
    uint32_t w = a * SOLVE_KINDS + SOLVE_W;
    if (a <= c) {
        add_slots(b, f_c, w, fitting(limit, until_c, least_a) + 1);
        add_slots(b, f_c, b_a, fitting(limit, until_c, until_a) + 1);
        add_slots(b, b_c, w, fitting(limit, begins_b, a == c ? w_a : least_a) + 1);
    } else {
        add_slots(b, f_c, b_a, fitting(limit, until_a - until_c, until_c));
        add_slots(b, b_c, w, fitting(limit, begins_b, w_a));
    }
}

static void add_memory(prover *b, uint32_t rank) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    uint64_t until_c = 0;
    for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) {
        uint64_t until_a = 0;
        until_c += (uint64_t)s->change[of[k]];
        for (uint32_t i = 0; i < s->per_rank; i += SOLVE_KINDS) {
            until_a += (uint64_t)s->change[of[i]];
            add_pair(b, of[k] / SOLVE_KINDS, of[i] / SOLVE_KINDS, until_c, until_a);
        }
    }
}

/* --- heads ------------------------------------------------------------------------------------ */

/* When the passes of the rank that must run before this one (in direction d) can have ended at the
 * earliest. */
static uint64_t end_of_predecessors(const prover *b, int d, uint32_t rank, const uint32_t *counts) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    uint32_t left[SOLVE_KINDS * 64];
    uint64_t latest[SOLVE_KINDS * 64], sum = 0, end = 0;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        left[k] = counts[k];
        if (!left[k]) continue;
        uint32_t m = d ? s->n_micro - left[k] : left[k] - 1;
        latest[k] = b->now.head[d][(size_t)of[k] * s->n_micro + m];
    }
    for (;;) { /* from the latest head to the earliest */
        uint32_t pick = SOLVE_NONE;
        for (uint32_t k = 0; k < s->per_rank; k++)
            if (left[k] && (pick == SOLVE_NONE || latest[k] > latest[pick])) pick = k;
        if (pick == SOLVE_NONE) return end;
        sum += s->ns[of[pick]];
        if (latest[pick] + sum > end) end = latest[pick] + sum;
        if (!--left[pick]) continue;
        uint32_t m = d ? s->n_micro - left[pick] : left[pick] - 1;
        latest[pick] = b->now.head[d][(size_t)of[pick] * s->n_micro + m];
    }
}

/* Precedence is transitive. */
static void close_counts(prover *b, int d, uint32_t queue, uint32_t micro) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)s->rank_of[queue] * s->per_rank;
    uint32_t *counts = counts_of(b, d, (size_t)queue * s->n_micro + micro);
    for (uint32_t k = 0; k < s->per_rank; k++) {
        if (!counts[k]) continue;
        if (counts[k] > s->n_micro) {
            b->contradiction = 1;
            return;
        }
        uint32_t m = d ? s->n_micro - counts[k] : counts[k] - 1;
        const uint32_t *theirs = counts_of(b, d, (size_t)of[k] * s->n_micro + m);
        for (uint32_t i = 0; i < s->per_rank; i++)
            if (theirs[i] > counts[i]) {
                counts[i] = theirs[i];
                b->changed = 1;
            }
    }
    uint32_t own = d ? s->n_micro - 1 - micro : micro;
    if (counts[s->place_of[queue]] > own) b->contradiction = 1; /* the pass would precede itself */
}

static void raise_head(prover *b, int d, uint32_t queue, uint32_t micro) {
    const pst_solver *s = b->s;
    size_t op = (size_t)queue * s->n_micro + micro;
    uint64_t head = b->now.head[d][op];
    close_counts(b, d, queue, micro);
    if (b->contradiction) return;
    for (int e = 0; e < 2; e++) {
        const pst_solve_edge *edge = &s->edge[d][queue][e];
        if (edge->queue == SOLVE_NONE) continue;
        uint64_t end = b->now.head[d][(size_t)edge->queue * s->n_micro + micro] +
                       s->ns[edge->queue] + edge->lag;
        if (end > head) head = end;
    }
    uint64_t end = end_of_predecessors(b, d, s->rank_of[queue], counts_of(b, d, op));
    if (end > head) head = end;
    if (head == b->now.head[d][op]) return;
    b->now.head[d][op] = head;
    b->changed = 1;
    if (head + s->ns[queue] + b->now.head[!d][op] > b->deadline) b->contradiction = 1;
}

/* Heads from the dependencies and the order of micro-batches alone. */
static void init_heads(prover *b, int d) {
    const pst_solver *s = b->s;
    for (uint32_t k = 0; k < s->n_queue; k++) {
        uint32_t queue = s->topological[d ? s->n_queue - 1 - k : k];
        uint64_t last = 0;
        for (uint32_t i = 0; i < s->n_micro; i++) {
            uint32_t micro = d ? s->n_micro - 1 - i : i;
            uint64_t head = last;
            for (int e = 0; e < 2; e++) {
                const pst_solve_edge *edge = &s->edge[d][queue][e];
                if (edge->queue == SOLVE_NONE) continue;
                uint64_t end = b->now.head[d][(size_t)edge->queue * s->n_micro + micro] +
                               s->ns[edge->queue] + edge->lag;
                if (end > head) head = end;
            }
            b->now.head[d][(size_t)queue * s->n_micro + micro] = head;
            last = head + s->ns[queue];
        }
    }
}

static void raise_heads(prover *b, int d) {
    const pst_solver *s = b->s;
    for (uint32_t i = 0; i < s->n_micro && !b->contradiction; i++)
        for (uint32_t k = 0; k < s->n_queue && !b->contradiction; k++)
            raise_head(b, d, s->topological[d ? s->n_queue - 1 - k : k],
                       d ? s->n_micro - 1 - i : i);
}

/* --- Jackson's preemptive schedule of a rank -------------------------------------------------- */

typedef struct {
    uint32_t next[SOLVE_KINDS * 64];
    uint64_t left[SOLVE_KINDS * 64], now, most;
} jackson;

/* The pass that runs now: the one with the longest tail among those whose head has come; *until:
 * the next head. */
static uint32_t pick_longest(const prover *b, const uint32_t *of, const jackson *j,
                             uint64_t *until) {
    const pst_solver *s = b->s;
    uint32_t pick = SOLVE_NONE;
    uint64_t longest = 0;
    *until = SOLVE_NEVER;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        if (j->next[k] == s->n_micro) continue;
        size_t op = (size_t)of[k] * s->n_micro + j->next[k];
        if (b->now.head[0][op] > j->now) {
            if (b->now.head[0][op] < *until) *until = b->now.head[0][op];
        } else if (pick == SOLVE_NONE || b->now.head[1][op] > longest) {
            pick = k;
            longest = b->now.head[1][op];
        }
    }
    return pick;
}

/* The largest end + tail of the preemptive schedule; no order of the rank's passes has a smaller
 * one. */
static uint64_t jackson_bound(const prover *b, uint32_t rank) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    jackson j = {.now = 0};
    for (uint32_t k = 0; k < s->per_rank; k++) j.left[k] = s->ns[of[k]];
    for (;;) {
        uint64_t until;
        uint32_t k = pick_longest(b, of, &j, &until);
        if (k == SOLVE_NONE) {
            if (until == SOLVE_NEVER) return j.most;
            j.now = until;
            continue;
        }
        if (until - j.now < j.left[k]) {
            j.left[k] -= until - j.now;
            j.now = until;
            continue;
        }
        j.now += j.left[k];
        uint64_t end = j.now + b->now.head[1][(size_t)of[k] * s->n_micro + j.next[k]++];
        if (end > j.most) j.most = end;
        j.left[k] = s->ns[of[k]];
    }
}

static uint64_t longest(const prover *b) {
    const pst_solver *s = b->s;
    uint64_t most = 0;
    for (size_t op = 0; op < s->n_op; op++) {
        uint64_t through = b->now.head[0][op] + s->ns[op / s->n_micro] + b->now.head[1][op];
        if (through > most) most = through;
    }
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint64_t end = jackson_bound(b, r),
                 held = s->problem->limit ? pst_solve_area(s, r, b->now.head) : 0;
        if (end > most) most = end;
        if (held > most) most = held;
    }
    return most;
}

/* --- destructive probing ---------------------------------------------------------------------- */

/* A pass of another queue of the rank that cannot run after (d = 1: before) this pass has to run
 * before (after) it. */
static void order_pair(prover *b, int d, uint32_t queue, uint32_t micro, uint32_t other) {
    const pst_solver *s = b->s;
    size_t op = (size_t)queue * s->n_micro + micro;
    uint32_t *counts = counts_of(b, d, op) + s->place_of[other];
    uint32_t most = s->n_micro - counts_of(b, !d, op)[s->place_of[other]];
    while (*counts < most) {
        uint32_t m = d ? s->n_micro - 1 - *counts : *counts;
        size_t x = (size_t)other * s->n_micro + m;
        if (b->now.head[d][op] + s->ns[queue] + s->ns[other] + b->now.head[!d][x] <= b->deadline)
            return;
        ++*counts;
        b->changed = 1;
        uint32_t *reverse = counts_of(b, !d, x) + s->place_of[queue],
                 after = d ? micro + 1 : s->n_micro - micro;
        if (after > *reverse) *reverse = after;
    }
}

static void order_pairs(prover *b) {
    const pst_solver *s = b->s;
    for (uint32_t queue = 0; queue < s->n_queue; queue++) {
        const uint32_t *of = s->queue_of + (size_t)s->rank_of[queue] * s->per_rank;
        for (uint32_t m = 0; m < s->n_micro; m++)
            for (uint32_t k = 0; k < s->per_rank; k++)
                for (int d = 0; d < 2 && of[k] != queue; d++) order_pair(b, d, queue, m, of[k]);
    }
}

static int is_infeasible(prover *b, uint64_t deadline, uint32_t rounds) {
    b->deadline = deadline;
    b->contradiction = 0;
    for (uint32_t i = 0; i < rounds && !b->contradiction; i++) {
        b->changed = 0;
        order_pairs(b);
        raise_heads(b, 0);
        if (!b->contradiction) raise_heads(b, 1);
        if (!b->changed) break;
    }
    return b->contradiction || longest(b) > deadline;
}

/* --- assembly --------------------------------------------------------------------------------- */

/* rounds 0: heads only, without raising. */
static pst_status open_facts(const pst_solver *s, uint64_t rounds, facts *k) {
    for (int d = 0; d < 2; d++) {
        k->head[d] = calloc(s->n_op, sizeof *k->head[d]);
        k->counts[d] = rounds ? calloc(s->n_op * s->per_rank, sizeof *k->counts[d]) : NULL;
        if (!k->head[d] || (rounds && !k->counts[d]))
            return pst_fail(PST_ENOMEM,
                            "schedule solved: no memory for a lower bound over %zu passes",
                            s->n_op);
    }
    return PST_OK;
}

static void copy_facts(const pst_solver *s, facts *to, const facts *from) {
    for (int d = 0; d < 2; d++) {
        memcpy(to->head[d], from->head[d], s->n_op * sizeof *to->head[d]);
        if (to->counts[d])
            memcpy(to->counts[d], from->counts[d], s->n_op * s->per_rank * sizeof *to->counts[d]);
    }
}

static void close_facts(facts *k) {
    for (int d = 0; d < 2; d++) {
        free(k->head[d]);
        free(k->counts[d]);
    }
}

enum { MAX_VISITS = 1 << 27 }; /* passes visited over all probes: well below a second */
enum { MAX_BYTES = 1 << 28 };  /* bytes of the facts */

/* A round visits, for every pass, about half of its rank's passes, in both directions; as counts
 * rounds as the budget allows. */
static uint64_t rounds_of(const pst_solver *s) {
    uint64_t visits = (uint64_t)s->n_op * pst_solve_length(s),
             bytes = (uint64_t)s->n_op * s->per_rank * 4 * sizeof(uint32_t);
    uint32_t budget_divisor = s->problem->budget_divisor ? s->problem->budget_divisor : 1;
    return bytes > MAX_BYTES ? 0 : MAX_VISITS / visits / budget_divisor;
}

/* The facts that hold without a deadline. */
static void init_facts(prover *b, uint32_t rounds) {
    const pst_solver *s = b->s;
    for (uint32_t q = 0; q < s->n_queue; q++) add_dependencies(b, q);
    for (uint32_t r = 0; s->problem->limit && r < s->n_rank; r++) add_memory(b, r);
    for (b->changed = 1; b->changed && rounds; rounds--) {
        b->changed = 0;
        raise_heads(b, 0);
        raise_heads(b, 1);
    }
}

static uint64_t prove(prover *b, uint64_t rounds, uint64_t best) {
    const pst_solver *s = b->s;
    uint32_t at_a_time = rounds < 8 ? (uint32_t)rounds + 1 : 8;
    b->deadline = SOLVE_NEVER;
    init_heads(b, 0);
    init_heads(b, 1);
    if (rounds) init_facts(b, at_a_time);
    uint64_t low = longest(b), high = best;
    copy_facts(s, &b->base, &b->now);
    for (; high > low && high - low > best >> 11 && rounds > at_a_time; rounds -= at_a_time) {
        uint64_t middle = low + (high - low) / 2;
        copy_facts(s, &b->now, &b->base);
        if (is_infeasible(b, middle, at_a_time)) low = middle + 1;
        else high = middle;
    }
    return low;
}

pst_status pst_solve_bound(const pst_solver *s, uint64_t best, uint64_t *bound, uint64_t *tail) {
    prover b = {.s = s};
    uint64_t rounds = rounds_of(s);
    pst_status status = open_facts(s, rounds, &b.now);
    if (status == PST_OK) status = open_facts(s, rounds, &b.base);
    if (status == PST_OK) {
        uint64_t low = prove(&b, rounds, best);
        *bound = low < best ? low : best;
        memcpy(tail, b.base.head[1], s->n_op * sizeof *tail);
    }
    close_facts(&b.now);
    close_facts(&b.base);
    return status;
}
