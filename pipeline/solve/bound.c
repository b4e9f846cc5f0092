/* A bound below which no order can come. For every pass: its head, before which it cannot start,
 * and its tail, what surely follows its end. Both grow with what must run on the same rank before
 * (after) it: all that its place in the chains and the memory of its rank imply, one after another
 * and none before its own head. The bound is the longest head + pass + tail, and Jackson's
 * preemptive schedule of every rank (Carlier and Pinson, EJOR 78, 1994).
 *
 * Then it is asked whether a makespan between bound and best solution is possible at all: with it
 * as a deadline two passes of a rank that cannot stand in one order must stand in the other, which
 * makes heads and tails grow again; a contradiction proves that it is not (destructive bounds:
 * Klein and Scholl, EJOR 112, 1999). */
#include "pipeline/solve/parts.h"
#include <stdlib.h>
#include <string.h>

/* What is known of every pass, [direction]: 0 before it, 1 behind it. */
typedef struct {
    uint64_t *head[2]; /* [n_op] */
    /* [n_op][per_rank] passes of each queue of its rank that surely run before (after) it */
    uint32_t *many[2];
} known;

typedef struct {
    const pst_solver *s;
    known now, base;
    uint64_t deadline; /* SOLVE_NEVER: none */
    int broken, changed;
} prover;

static uint32_t *many_of(const prover *b, int d, size_t op) {
    return b->now.many[d] + op * b->s->per_rank;
}

/* --- what the chains and the memory imply ----------------------------------------------------- */

/* Of one micro-batch, whether pass a runs before pass b. */
static int comes_before(uint32_t a, uint32_t b) {
    uint32_t chunk_a = a / SOLVE_KINDS, chunk_b = b / SOLVE_KINDS, kind_a = a % SOLVE_KINDS,
             kind_b = b % SOLVE_KINDS;
    if (kind_a == SOLVE_W || a == b) return 0;
    if (kind_a == SOLVE_F) return kind_b == SOLVE_F ? chunk_a < chunk_b : 1;
    return kind_b == SOLVE_B ? chunk_a > chunk_b : kind_b == SOLVE_W && chunk_a >= chunk_b;
}

static void know_chains(prover *b, uint32_t queue) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)s->rank_of[queue] * s->per_rank;
    for (uint32_t m = 0; m < s->n_micro; m++) {
        uint32_t *before = many_of(b, 0, (size_t)queue * s->n_micro + m),
                 *after = many_of(b, 1, (size_t)queue * s->n_micro + m);
        for (uint32_t k = 0; k < s->per_rank; k++) {
            before[k] = comes_before(of[k], queue) ? m + 1 : 0;
            after[k] = comes_before(queue, of[k]) ? s->n_micro - m : 0;
            if (of[k] != queue) continue;
            before[k] = m;
            after[k] = s->n_micro - 1 - m;
        }
    }
}

/* Pass m + slots of `later` waits for pass m of `earlier`. */
static void know_slots(prover *b, uint32_t later, uint32_t earlier, uint64_t slots) {
    const pst_solver *s = b->s;
    for (uint64_t m = slots; m < s->n_micro; m++) {
        uint32_t i = (uint32_t)(m - slots);
        uint32_t *before = many_of(b, 0, (size_t)later * s->n_micro + m) + s->place_of[earlier];
        uint32_t *after = many_of(b, 1, (size_t)earlier * s->n_micro + i) + s->place_of[later];
        if (i + 1 > *before) *before = i + 1;
        if (s->n_micro - (uint32_t)m > *after) *after = s->n_micro - (uint32_t)m;
    }
}

/* As many as fit, each holding `each`, beside what takes `beside`; UINT32_MAX: any number, or
 * nothing is known. */
static uint64_t fitting(uint64_t limit, uint64_t beside, uint64_t each) {
    return each && limit >= beside ? (limit - beside) / each : UINT32_MAX;
}

/* What F and B of chunk c have to wait for in chunk a of the same rank; until_c (until_a): what a
 * micro-batch holds of the rank's chunks up to c (a) between its F of that chunk and its B of it.
 * Pass x of chunk a is undone, and so are those behind it. When micro-batch m begins F or B of
 * chunk c it holds until_c itself, and x to m - 1 (or m) - hold chunk a from their F of it to W, in
 * part before and in part behind B, which have been if a <= c, or a >= c on the way back; - hold
 * all up to a before their B of it, if a <= c; - hold all up to c as long as x has not run B of a
 * later chunk a, when x holds those up to a as well, or else will when it comes there, and none
 * behind it can have let go of anything by then. */
static void know_pair(prover *b, uint32_t c, uint32_t a, uint64_t until_c, uint64_t until_a) {
    const pst_solve_problem *p = b->s->problem;
    const pst_held *of_c = &p->held[c], *of_a = &p->held[a];
    uint64_t limit = p->limit[p->rank_of_chunk[c]], w_a = of_a->f_w + of_a->b_w,
             begins_b = until_c + of_c->b_w;
    uint64_t least_a = of_a->f_w + (of_a->f_b < of_a->b_w ? of_a->f_b : of_a->b_w);
    uint32_t f_c = c * SOLVE_KINDS + SOLVE_F, b_c = f_c + SOLVE_B, b_a = a * SOLVE_KINDS + SOLVE_B;
    uint32_t w = a * SOLVE_KINDS + SOLVE_W;
    if (a <= c) {
        know_slots(b, f_c, w, fitting(limit, until_c, least_a) + 1);
        know_slots(b, f_c, b_a, fitting(limit, until_c, until_a) + 1);
        know_slots(b, b_c, w, fitting(limit, begins_b, a == c ? w_a : least_a) + 1);
    } else {
        know_slots(b, f_c, b_a, fitting(limit, until_a - until_c, until_c));
        know_slots(b, b_c, w, fitting(limit, begins_b, w_a));
    }
}

static void know_memory(prover *b, uint32_t rank) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    uint64_t until_c = 0;
    for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) {
        uint64_t until_a = 0;
        until_c += (uint64_t)s->change[of[k]];
        for (uint32_t i = 0; i < s->per_rank; i += SOLVE_KINDS) {
            until_a += (uint64_t)s->change[of[i]];
            know_pair(b, of[k] / SOLVE_KINDS, of[i] / SOLVE_KINDS, until_c, until_a);
        }
    }
}

/* --- heads ------------------------------------------------------------------------------------ */

/* The passes of a rank that surely run before this one, in the direction at hand, cannot be done
 * earlier. */
static uint64_t end_of_those_before(const prover *b, int d, uint32_t rank, const uint32_t *many) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    uint32_t left[SOLVE_KINDS * 64];
    uint64_t latest[SOLVE_KINDS * 64], sum = 0, end = 0;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        left[k] = many[k];
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

/* Whoever runs before one that runs before this, runs before this. */
static void close_many(prover *b, int d, uint32_t queue, uint32_t micro) {
    const pst_solver *s = b->s;
    const uint32_t *of = s->queue_of + (size_t)s->rank_of[queue] * s->per_rank;
    uint32_t *many = many_of(b, d, (size_t)queue * s->n_micro + micro);
    for (uint32_t k = 0; k < s->per_rank; k++) {
        if (!many[k]) continue;
        if (many[k] > s->n_micro) {
            b->broken = 1;
            return;
        }
        uint32_t m = d ? s->n_micro - many[k] : many[k] - 1;
        const uint32_t *theirs = many_of(b, d, (size_t)of[k] * s->n_micro + m);
        for (uint32_t i = 0; i < s->per_rank; i++)
            if (theirs[i] > many[i]) {
                many[i] = theirs[i];
                b->changed = 1;
            }
    }
    uint32_t own = d ? s->n_micro - 1 - micro : micro;
    if (many[s->place_of[queue]] > own) b->broken = 1; /* it would run before itself */
}

static void raise_head(prover *b, int d, uint32_t queue, uint32_t micro) {
    const pst_solver *s = b->s;
    size_t op = (size_t)queue * s->n_micro + micro;
    uint64_t head = b->now.head[d][op];
    close_many(b, d, queue, micro);
    if (b->broken) return;
    for (int e = 0; e < 2; e++) {
        const pst_solve_edge *edge = &s->edge[d][queue][e];
        if (edge->queue == SOLVE_NONE) continue;
        uint64_t end = b->now.head[d][(size_t)edge->queue * s->n_micro + micro] +
                       s->ns[edge->queue] + edge->lag;
        if (end > head) head = end;
    }
    uint64_t end = end_of_those_before(b, d, s->rank_of[queue], many_of(b, d, op));
    if (end > head) head = end;
    if (head == b->now.head[d][op]) return;
    b->now.head[d][op] = head;
    b->changed = 1;
    if (head + s->ns[queue] + b->now.head[!d][op] > b->deadline) b->broken = 1;
}

/* What the chains and the order of micro-batches say by themselves. */
static void begin_heads(prover *b, int d) {
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
    for (uint32_t i = 0; i < s->n_micro && !b->broken; i++)
        for (uint32_t k = 0; k < s->n_queue && !b->broken; k++)
            raise_head(b, d, s->topological[d ? s->n_queue - 1 - k : k],
                       d ? s->n_micro - 1 - i : i);
}

/* --- a rank as a whole ------------------------------------------------------------------------ */

typedef struct {
    uint32_t next[SOLVE_KINDS * 64];
    uint64_t left[SOLVE_KINDS * 64], now, most;
} jackson;

/* The pass that runs now: of those whose head has come the one with the longest tail; *until: the
 * next head. */
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

/* Most of end + tail when a pass may be interrupted: no order of the rank's passes does better. */
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

/* --- is a makespan possible? ------------------------------------------------------------------ */

/* Passes of another queue of the rank that cannot run behind (d = 1: before) the pass run before
 * (behind) it. */
static void order_pair(prover *b, int d, uint32_t queue, uint32_t micro, uint32_t other) {
    const pst_solver *s = b->s;
    size_t op = (size_t)queue * s->n_micro + micro;
    uint32_t *many = many_of(b, d, op) + s->place_of[other];
    uint32_t most = s->n_micro - many_of(b, !d, op)[s->place_of[other]];
    while (*many < most) {
        uint32_t m = d ? s->n_micro - 1 - *many : *many;
        size_t x = (size_t)other * s->n_micro + m;
        if (b->now.head[d][op] + s->ns[queue] + s->ns[other] + b->now.head[!d][x] <= b->deadline)
            return;
        ++*many;
        b->changed = 1;
        uint32_t *back = many_of(b, !d, x) + s->place_of[queue],
                 behind = d ? micro + 1 : s->n_micro - micro;
        if (behind > *back) *back = behind;
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

static int is_impossible(prover *b, uint64_t deadline, uint32_t rounds) {
    b->deadline = deadline;
    b->broken = 0;
    for (uint32_t i = 0; i < rounds && !b->broken; i++) {
        b->changed = 0;
        order_pairs(b);
        raise_heads(b, 0);
        if (!b->broken) raise_heads(b, 1);
        if (!b->changed) break;
    }
    return b->broken || longest(b) > deadline;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* rounds 0: only heads. */
static pst_status open_known(const pst_solver *s, uint64_t rounds, known *k) {
    for (int d = 0; d < 2; d++) {
        k->head[d] = calloc(s->n_op, sizeof *k->head[d]);
        k->many[d] = rounds ? calloc(s->n_op * s->per_rank, sizeof *k->many[d]) : NULL;
        if (!k->head[d] || (rounds && !k->many[d]))
            return pst_fail(PST_ENOMEM, "schedule solved: no memory for a bound of %zu passes",
                            s->n_op);
    }
    return PST_OK;
}

static void copy_known(const pst_solver *s, known *to, const known *from) {
    for (int d = 0; d < 2; d++) {
        memcpy(to->head[d], from->head[d], s->n_op * sizeof *to->head[d]);
        if (to->many[d])
            memcpy(to->many[d], from->many[d], s->n_op * s->per_rank * sizeof *to->many[d]);
    }
}

static void close_known(known *k) {
    for (int d = 0; d < 2; d++) {
        free(k->head[d]);
        free(k->many[d]);
    }
}

enum { MOST_WORK = 1 << 27 };  /* passes looked at, over all probes: well below a second */
enum { MOST_BYTES = 1 << 28 }; /* of what is known */

/* A look at every pass goes through half of its rank's, in both directions; so often that can be
 * done. */
static uint64_t rounds_of(const pst_solver *s) {
    uint64_t work = (uint64_t)s->n_op * pst_solve_length(s),
             bytes = (uint64_t)s->n_op * s->per_rank * 4 * sizeof(uint32_t);
    uint32_t thrift = s->problem->thrift ? s->problem->thrift : 1;
    return bytes > MOST_BYTES ? 0 : MOST_WORK / work / thrift;
}

/* Without a deadline: what is so in any case. */
static void know(prover *b, uint32_t rounds) {
    const pst_solver *s = b->s;
    for (uint32_t q = 0; q < s->n_queue; q++) know_chains(b, q);
    for (uint32_t r = 0; s->problem->limit && r < s->n_rank; r++) know_memory(b, r);
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
    begin_heads(b, 0);
    begin_heads(b, 1);
    if (rounds) know(b, at_a_time);
    uint64_t low = longest(b), high = best;
    copy_known(s, &b->base, &b->now);
    for (; high > low && high - low > best >> 11 && rounds > at_a_time; rounds -= at_a_time) {
        uint64_t middle = low + (high - low) / 2;
        copy_known(s, &b->now, &b->base);
        if (is_impossible(b, middle, at_a_time)) low = middle + 1;
        else high = middle;
    }
    return low;
}

pst_status pst_solve_bound(const pst_solver *s, uint64_t best, uint64_t *bound, uint64_t *tail) {
    prover b = {.s = s};
    uint64_t rounds = rounds_of(s);
    pst_status status = open_known(s, rounds, &b.now);
    if (status == PST_OK) status = open_known(s, rounds, &b.base);
    if (status == PST_OK) {
        uint64_t low = prove(&b, rounds, best);
        *bound = low < best ? low : best;
        memcpy(tail, b.base.head[1], s->n_op * sizeof *tail);
    }
    close_known(&b.now);
    close_known(&b.base);
    return status;
}
