/* test: label=full timeout=600
 * Solved schedules against all orders there are, several chunks per rank and little memory: the
 * bound is not above the shortest of them, and what is solved is hardly longer. Orders are built
 * pass by pass; of those that have run the same passes, only such go on as no other is better than
 * in every respect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/solve/solve.h"
#include "pipeline/study.h"

enum { CHUNKS = 6, QUEUES = 3 * CHUNKS, RANKS = 3, MICROS = 3, BUCKETS = 1 << 18, MOST = 1 << 20 };

typedef struct {
    uint8_t done[QUEUES];         /* passes of each queue: 3 * chunk + F, B, W */
    uint16_t free_at[RANKS];      /* of each rank */
    uint16_t end[QUEUES][MICROS]; /* of passes that others still wait for; else 0 */
    int32_t next;                 /* in its bucket; -1: none, DEAD: another is better */
} order;
enum { DEAD = -2 };

typedef struct {
    const pst_solve_problem *p;
    uint32_t n_queue;
    order *all[2]; /* [MOST] of passes so far, of one pass more */
    int32_t n[2];
    int32_t *bucket; /* [BUCKETS] */
    uint64_t best;
    int full; /* there are more than MOST */
} tree;

static uint64_t ns_of(const tree *t, uint32_t q) {
    const pst_pass_ns *ns = &t->p->ns[q / 3];
    const uint64_t of[3] = {ns->f, ns->b, ns->w};
    return of[q % 3];
}

/* The passes of the same micro-batch that q waits for; returns their number. */
static int before(const tree *t, uint32_t q, uint32_t list[2]) {
    int n = 0;
    if (q % 3 == 0 && q >= 3) list[n++] = q - 3;
    if (q % 3) list[n++] = q - 1;
    if (q % 3 == 1 && q + 3 < t->n_queue) list[n++] = q + 3;
    return n;
}

static int waited_for(const tree *t, const order *x, uint32_t q, uint32_t m) {
    if (q % 3 == 2) return 0;
    if (x->done[q + 1] <= m) return 1;
    if (q % 3 == 0) return q + 3 < t->n_queue && x->done[q + 3] <= m;
    return q >= 3 && x->done[q - 3] <= m;
}

static uint64_t held(const tree *t, const order *x, uint32_t rank) {
    uint64_t sum = 0;
    for (uint32_t c = 0; c < t->p->n_chunk; c++) {
        const pst_held *h = &t->p->held[c];
        uint64_t f = x->done[3 * c], b = x->done[3 * c + 1], w = x->done[3 * c + 2];
        if (t->p->rank_of_chunk[c] == rank)
            sum += (f - b) * h->f_b + (f - w) * h->f_w + (b - w) * h->b_w;
    }
    return sum;
}

/* When q's next pass can start; UINT64_MAX: it cannot. */
static uint64_t start_of(const tree *t, const order *x, uint32_t q) {
    uint32_t m = x->done[q], rank = t->p->rank_of_chunk[q / 3], list[2];
    const pst_held *h = &t->p->held[q / 3];
    const uint64_t takes_of[3] = {h->f_b + h->f_w, h->b_w, 0};
    uint64_t at = x->free_at[rank], takes = takes_of[q % 3];
    if (m == t->p->n_micro || held(t, x, rank) + takes > t->p->limit[rank]) return UINT64_MAX;
    for (int i = before(t, q, list); i-- > 0;) {
        if (x->done[list[i]] <= m) return UINT64_MAX;
        if (x->end[list[i]][m] > at) at = x->end[list[i]][m];
    }
    return at;
}

/* No rank can be done earlier. */
static uint64_t least_end(const tree *t, const order *x) {
    uint64_t left[RANKS] = {0}, most = 0;
    for (uint32_t q = 0; q < t->n_queue; q++)
        left[t->p->rank_of_chunk[q / 3]] += (t->p->n_micro - x->done[q]) * ns_of(t, q);
    for (uint32_t r = 0; r < t->p->n_rank; r++)
        if (x->free_at[r] + left[r] > most) most = x->free_at[r] + left[r];
    return most;
}

static int no_worse(const order *a, const order *b) {
    for (int r = 0; r < RANKS; r++)
        if (a->free_at[r] > b->free_at[r]) return 0;
    for (int i = 0; i < QUEUES * MICROS; i++)
        if (a->end[i / MICROS][i % MICROS] > b->end[i / MICROS][i % MICROS]) return 0;
    return 1;
}

static void keep(tree *t, int to, order *x) {
    uint64_t hash = 0;
    for (int q = 0; q < QUEUES; q++) hash = (hash ^ x->done[q]) * 0x9e3779b97f4a7c15u;
    int32_t *first = &t->bucket[hash >> 40 & (BUCKETS - 1)];
    for (int32_t *link = first; *link >= 0;) {
        order *other = &t->all[to][*link];
        int same = !memcmp(other->done, x->done, QUEUES);
        if (same && no_worse(other, x)) return;
        if (!same || !no_worse(x, other)) {
            link = &other->next;
            continue;
        }
        *link = other->next;
        other->next = DEAD;
    }
    if (t->n[to] == MOST) {
        t->full = 1;
        return;
    }
    x->next = *first;
    *first = t->n[to];
    t->all[to][t->n[to]++] = *x;
}

static void extend(tree *t, int to, const order *from, uint32_t q, int last) {
    uint64_t at = start_of(t, from, q);
    if (at == UINT64_MAX) return;
    order x = *from;
    x.end[q][x.done[q]++] = x.free_at[t->p->rank_of_chunk[q / 3]] = (uint16_t)(at + ns_of(t, q));
    uint64_t end = least_end(t, &x);
    if (end >= t->best) return;
    if (last) {
        t->best = end;
        return;
    }
    for (uint32_t k = 0; k < t->n_queue; k++)
        for (uint32_t m = 0; m < x.done[k]; m++)
            if (!waited_for(t, &x, k, m)) x.end[k][m] = 0;
    keep(t, to, &x);
}

/* The shortest makespan, when it is below that of a known order; 0: there are too many orders. */
static uint64_t shortest(tree *t, const pst_solve_problem *p, uint64_t known) {
    t->p = p;
    t->n_queue = 3 * p->n_chunk;
    t->best = known;
    t->full = 0;
    uint32_t passes = t->n_queue * p->n_micro;
    t->n[0] = 1;
    t->all[0][0] = (order){.next = -1};
    for (uint32_t k = 0; k < passes && !t->full; k++) {
        int from = (int)k % 2;
        t->n[!from] = 0;
        memset(t->bucket, 0xff, BUCKETS * sizeof *t->bucket);
        for (int32_t i = 0; i < t->n[from]; i++)
            for (uint32_t q = 0; q < t->n_queue && t->all[from][i].next != DEAD; q++)
                extend(t, !from, &t->all[from][i], q, k + 1 == passes);
    }
    return t->full ? 0 : t->best;
}

typedef struct {
    uint32_t rank_of_chunk[CHUNKS];
    pst_pass_ns ns[CHUNKS];
    pst_held held[CHUNKS];
    uint64_t limit[RANKS];
    pst_solve_problem p;
} instance;

typedef struct {
    uint32_t n_rank, n_micro, more;
    /* plain: what simulate draws, equal halves that hold a unit from F to W; else everything
     * differs */
    int back, plain;
} shape;

static void draw(instance *x, uint64_t *seed, shape of) {
    const uint32_t n_rank = of.n_rank, n_micro = of.n_micro;
    *x = (instance){.p = {.n_rank = n_rank, .n_chunk = 2 * n_rank, .n_micro = n_micro}};
    for (uint32_t c = 0; c < 2 * n_rank; c++) {
        uint32_t second = of.back ? 2 * n_rank - 1 - c : c - n_rank, rank = c < n_rank ? c : second;
        uint64_t f_b = study_random(seed) % 3;
        x->rank_of_chunk[c] = rank;
        x->ns[c] = (pst_pass_ns){10 + study_random(seed) % 21, 10 + study_random(seed) % 21,
                                 10 + study_random(seed) % 21};
        x->held[c] = (pst_held){f_b, 1 + study_random(seed) % 3, study_random(seed) % 3};
        if (of.plain && c >= n_rank) x->ns[c] = x->ns[rank];
        if (of.plain) x->held[c] = (pst_held){.f_w = 1};
    }
    for (uint32_t r = 0; r < n_rank; r++) x->limit[r] = of.plain ? 2 + of.more : 14 + 2 * of.more;
    x->p.rank_of_chunk = x->rank_of_chunk;
    x->p.ns = x->ns;
    x->p.held = x->held;
    x->p.limit = x->limit;
}

static void against_all_orders(void **state) {
    (void)state;
    uint64_t seed = study_seed(), sum_bound = 0, sum_exact = 0, sum_solved = 0;
    uint32_t n = 0;
    tree t = {.bucket = malloc(BUCKETS * sizeof *t.bucket)};
    t.all[0] = malloc(MOST * sizeof **t.all);
    t.all[1] = malloc(MOST * sizeof **t.all);
    assert_true(t.bucket && t.all[0] && t.all[1]);
    for (uint32_t round = 0; round < 240; round++) {
        uint32_t p = round % 6 ? 2 : 3, more = round / 2 % 4;
        instance x;
        pst_schedule *s;
        pst_solved found;
        draw(&x, &seed, (shape){p, p == 3 && more == 3 ? 2 : 3, more, round % 3 > 0, round % 2});
        if (pst_schedule_solve(&x.p, &s, &found) != PST_OK)
            fail_msg("round %u: %s", round, pst_error());
        pst_schedule_close(s);
        uint64_t exact = shortest(&t, &x.p, found.makespan_ns);
        if (!exact) continue;
        if (found.bound_ns > exact)
            fail_msg("round %u: bound %llu, but %llu is possible", round,
                     (unsigned long long)found.bound_ns, (unsigned long long)exact);
        n++;
        sum_bound += found.bound_ns;
        sum_exact += exact;
        sum_solved += found.makespan_ns;
    }
    printf("%u compared: the shortest is %.2f%% above the bound, what is solved %.2f%% above the "
           "shortest\n",
           n, 100 * ((double)sum_exact / (double)sum_bound - 1),
           100 * ((double)sum_solved / (double)sum_exact - 1));
    assert_true(n >= 180 && sum_solved * 100 <= sum_exact * 102);
    free(t.bucket);
    free(t.all[0]);
    free(t.all[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_all_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
