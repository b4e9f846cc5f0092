/* test: label=quick timeout=120 */
/* Solved schedules: against brute force on small problems (the bound from below, the order from
 * above), the limits of memory, the named schedules, and the same result every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/solve/solve.h"
#include "pipeline/study.h"
#include "skip.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

typedef struct {
    uint32_t rank_of_chunk[MOST];
    pst_pass_ns ns[MOST];
    pst_hop_ns hop[MOST];
    pst_held held[MOST];
    uint64_t limit[MOST];
    pst_solve_problem p;
} instance;

static void draw(instance *x, uint64_t *seed, uint32_t n_rank, uint32_t n_virtual, uint32_t n_micro,
                 uint64_t micros) {
    *x = (instance){0};
    uint32_t n = n_rank * n_virtual;
    for (uint32_t c = 0; c < n; c++) {
        x->rank_of_chunk[c] = n_virtual == 2 && c >= n_rank ? 2 * n_rank - 1 - c : c % n_rank;
        x->ns[c] = (pst_pass_ns){1 + study_random(seed) % 9, 1 + study_random(seed) % 9,
                                 1 + study_random(seed) % 9};
        x->hop[c] = (pst_hop_ns){study_random(seed) % 3, study_random(seed) % 3};
        uint64_t f_b = study_random(seed) % 3;
        x->held[c] = (pst_held){f_b, 2 + study_random(seed) % 3, study_random(seed) % (f_b + 1)};
    }
    for (uint32_t r = 0; r < n_rank; r++) x->limit[r] = micros * 8 + study_random(seed) % 4;
    x->p = (pst_solve_problem){.n_rank = n_rank,
                               .n_chunk = n,
                               .n_micro = n_micro,
                               .rank_of_chunk = x->rank_of_chunk,
                               .ns = x->ns,
                               .hop = x->hop,
                               .held = x->held,
                               .limit = x->limit,
                               .budget_divisor = 8};
}

/* --- brute force ------------------------------------------------------------------------------ */

/* Depth first over all orders in which passes can be started; a state that was as good or better
 * before is left. */
typedef struct {
    const instance *x;
    uint64_t left; /* states that may still be visited */
    int reserve;   /* F leaves room for its B */
    uint32_t done[MOST][3];
    uint64_t end[MOST][3][4], free_at[MOST], held[MOST], best;
} force;

static uint64_t ns_of(const pst_pass_ns *ns, int kind) {
    const uint64_t of[3] = {ns->f, ns->b, ns->w};
    return of[kind];
}

static uint64_t ready(const force *f, uint32_t c, int kind) {
    const pst_solve_problem *p = &f->x->p;
    uint32_t m = f->done[c][kind];
    const pst_held *h = &p->held[c];
    uint32_t rank = p->rank_of_chunk[c];
    uint64_t takes = kind == 1 ? h->b_w : 0, at = 0;
    if (kind == 0) takes = h->f_b + h->f_w + (f->reserve ? h->b_w : 0);
    if (m == p->n_micro || f->held[rank] + takes > p->limit[rank]) return UINT64_MAX;
    if (kind == 0 && c > 0) {
        if (f->done[c - 1][0] <= m) return UINT64_MAX;
        at = f->end[c - 1][0][m] + p->hop[c - 1].forward;
    }
    if (kind && f->done[c][kind - 1] <= m) return UINT64_MAX;
    if (kind) at = f->end[c][kind - 1][m];
    if (kind == 1 && c + 1 < p->n_chunk) {
        if (f->done[c + 1][1] <= m) return UINT64_MAX;
        if (f->end[c + 1][1][m] + p->hop[c].backward > at)
            at = f->end[c + 1][1][m] + p->hop[c].backward;
    }
    return at > f->free_at[rank] ? at : f->free_at[rank];
}

/* One chunk per rank: F leaves room for its B, so nothing gets stuck, and active schedules suffice.
 * Several chunks: what is found may not be the shortest. */
static void search(force *f, uint64_t makespan) {
    const pst_solve_problem *p = &f->x->p;
    if (makespan >= f->best || !f->left) return;
    f->left--;
    uint64_t first_end = UINT64_MAX;
    uint32_t rank = 0, left = 0;
    for (uint32_t c = 0; c < p->n_chunk; c++)
        for (int k = 0; k < 3; k++) {
            uint64_t at = ready(f, c, k), ns = ns_of(&p->ns[c], k);
            left += f->done[c][k] < p->n_micro;
            if (at != UINT64_MAX && at + ns < first_end) {
                first_end = at + ns;
                rank = p->rank_of_chunk[c];
            }
        }
    if (!left) f->best = makespan;
    if (first_end == UINT64_MAX) return;
    for (uint32_t c = 0; c < p->n_chunk; c++)
        for (int k = 0; k < 3; k++) { /* Giffler and Thompson: what could start on that rank before
                                         the first could end */
            uint64_t at = p->rank_of_chunk[c] == rank ? ready(f, c, k) : UINT64_MAX;
            if (at >= first_end) continue;
            const pst_held *h = &p->held[c];
            uint64_t ns = ns_of(&p->ns[c], k), free_at = f->free_at[rank];
            const uint64_t changes[3] = {h->f_b + h->f_w, h->b_w - h->f_b, -(h->f_w + h->b_w)};
            uint64_t change = changes[k];
            f->end[c][k][f->done[c][k]++] = f->free_at[rank] = at + ns;
            f->held[rank] += change;
            search(f, at + ns > makespan ? at + ns : makespan);
            f->held[rank] -= change;
            f->free_at[rank] = free_at;
            f->done[c][k]--;
        }
}

static uint64_t shortest(const instance *x) {
    uint64_t best = UINT64_MAX;
    for (int reserve = 0; reserve < 2; reserve++) {
        force f = {.x = x, .reserve = reserve, .best = best, .left = 300000};
        search(&f, 0);
        best = f.best;
    }
    return best;
}

/* With two chunks per rank, too: nothing that memory allows is shorter than the bound. */
static void bound_of_several_chunks(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t tight = 0, n = 0;
    for (int round = 0; round < 24; round++) {
        instance x;
        draw(&x, &seed, 2 + round % 2, 2, 2, 1 + study_random(&seed) % 3);
        for (uint32_t r = 0; r < x.p.n_rank; r++)
            x.limit[r] += 8; /* one micro-batch of both chunks */
        memset(x.hop, 0, sizeof x.hop);
        pst_schedule *s;
        pst_solved found;
        if (pst_schedule_solve(&x.p, &s, &found) != PST_OK)
            fail_msg("round %d: %s", round, pst_error());
        uint64_t least = shortest(&x);
        if (found.bound_ns > least)
            fail_msg("round %d: bound %llu, but %llu is possible", round,
                     (unsigned long long)found.bound_ns, (unsigned long long)least);
        n++;
        tight += found.bound_ns == (least < found.makespan_ns ? least : found.makespan_ns);
        pst_schedule_close(s);
    }
    printf("of %u, %u bounds tight\n", n, tight);
}

/* Without messages the solver's times are those of the problem; with them, a receive may come
 * late. */
static void bound_and_order_against_brute_force(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t optimal = 0, tight = 0, n = 0;
    for (int round = 0; round < 60; round++) {
        instance x;
        uint32_t n_rank = 2 + round % 2, m = n_rank == 2 ? 2 + round / 2 % 2 : 2;
        draw(&x, &seed, n_rank, 1, m, 1 + study_random(&seed) % 2);
        int hops = round % 3 == 0;
        if (!hops) memset(x.hop, 0, sizeof x.hop);
        pst_schedule *s;
        pst_solved found;
        if (pst_schedule_solve(&x.p, &s, &found) != PST_OK)
            fail_msg("round %d: %s", round, pst_error());
        uint64_t least = shortest(&x);
        if (found.bound_ns > least)
            fail_msg("round %d: bound %llu, but %llu is possible", round,
                     (unsigned long long)found.bound_ns, (unsigned long long)least);
        if (!hops && found.makespan_ns < least)
            fail_msg("round %d: makespan %llu, but %llu is the least", round,
                     (unsigned long long)found.makespan_ns, (unsigned long long)least);
        n++;
        optimal += found.makespan_ns <= least;
        tight += found.bound_ns == least;
        pst_schedule_close(s);
    }
    printf("of %u, %u optimal, %u bounds tight\n", n, optimal, tight);
    assert_true(10 * optimal >= 8 * n && 2 * tight >= n);
}

static void holds_limits_and_beats_the_named(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    for (int round = 0; round < 16; round++) {
        instance x;
        uint32_t n_virtual = 1 + round % 2, p = n_virtual == 1 ? 2 + round % 6 : 2 + round % 3;
        draw(&x, &seed, p, n_virtual, 1 + study_random(&seed) % 16,
             (1 + study_random(&seed) % 4) * n_virtual);
        if (round % 5 == 0) x.p.limit = NULL;
        pst_schedule *s, *again;
        pst_solved found, same;
        if (pst_schedule_solve(&x.p, &s, &found) != PST_OK)
            fail_msg("round %d: %s", round, pst_error());
        assert_true(pst_solve_fits(&x.p, s));
        assert_int_equal(pst_schedule_check(s), PST_OK);
        assert_true(found.makespan_ns <= found.named_ns && found.makespan_ns >= found.bound_ns);
        assert_int_equal(pst_schedule_solve(&x.p, &again, &same), PST_OK);
        assert_true(same.makespan_ns == found.makespan_ns && same.bound_ns == found.bound_ns);
        for (uint32_t r = 0; r < p; r++)
            for (uint32_t i = 0; i < s->n_action[r]; i++) {
                const pst_action *a = &s->action[r][i], *b = &again->action[r][i];
                assert_true(a->opcode == b->opcode && a->chunk == b->chunk && a->micro == b->micro);
            }
        pst_schedule_close(s);
        pst_schedule_close(again);
    }
}

/* F = B = W: what is published as best is found, and proven. */
static void equal_stages_are_solved_to_the_bound(void **state) {
    (void)state;
    for (uint32_t p = 2; p <= MOST; p += 2) {
        instance x;
        uint64_t seed = 1;
        draw(&x, &seed, p, 1, 3 * p, p);
        for (uint32_t c = 0; c < p; c++) {
            x.ns[c] = (pst_pass_ns){10, 10, 10};
            x.held[c] = (pst_held){0, 1, 0};
            x.limit[c] = p;
        }
        x.p.hop = NULL;
        pst_schedule *s;
        pst_solved found;
        assert_int_equal(pst_schedule_solve(&x.p, &s, &found), PST_OK); /* zb-h1: (p-1)(F+B-W) */
        assert_int_equal(found.bound_ns, 90 * p + (p - 1) * 10);
        assert_int_equal(found.makespan_ns, found.bound_ns);
        pst_schedule_close(s);
        for (uint32_t c = 0; c < p; c++) x.limit[c] = 2 * p - 1;
        /* zb-h2: the ranks' work and the way to the last */
        assert_int_equal(pst_schedule_solve(&x.p, &s, &found), PST_OK);
        assert_int_equal(found.makespan_ns, found.bound_ns);
        pst_schedule_close(s);
    }
}

/* Placements: chunks of a rank behind each other, as interleaved has them, are solved for as
 * well. */
static void rounds(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    for (uint32_t v = 2; v <= 4; v++) {
        instance x;
        draw(&x, &seed, 2, v, 5, 2 * v);
        for (uint32_t c = 0; c < x.p.n_chunk; c++) x.rank_of_chunk[c] = c % 2;
        pst_schedule *s;
        pst_solved found;
        if (pst_schedule_solve(&x.p, &s, &found) != PST_OK)
            fail_msg("%u chunks: %s", v, pst_error());
        assert_true(pst_solve_fits(&x.p, s));
        assert_true(found.bound_ns <= found.makespan_ns && found.makespan_ns <= found.named_ns);
        x.p.budget_divisor = 64;
        pst_schedule_close(s);
        assert_int_equal(pst_schedule_solve(&x.p, &s, &found), PST_OK);
        pst_schedule_close(s);
        pst_solve_placement place[PST_SOLVE_PLACEMENTS];
        uint32_t n = pst_solve_placements(v, place);
        assert_int_equal(n, v == 2 ? 2 : 1);
        assert_string_equal(place[n - 1].like, "interleaved");
        assert_int_equal(place[n - 1].n_virtual, v);
    }
}

/* Where nothing can be proven within the time, nothing is kept for a proof either: 340 MiB, it
 * would be here. */
static void unproven_takes_little_memory(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)SKIPPED("memory of what cannot be proven: sanitizers take terabytes of addresses");
    skip();
#else
    enum { V = 64, M = 300, MIB = 1 << 20 };
    static pst_pass_ns ns[2 * V];
    static pst_held held[2 * V];
    static uint32_t rank_of_chunk[2 * V];
    for (uint32_t c = 0; c < 2 * V; c++) {
        ns[c] = (pst_pass_ns){2, 3, 4};
        held[c] = (pst_held){.f_w = 1};
        rank_of_chunk[c] = c % 2;
    }
    pst_solve_problem p = {.n_rank = 2,
                           .n_chunk = 2 * V,
                           .n_micro = M,
                           .rank_of_chunk = rank_of_chunk,
                           .ns = ns,
                           .held = held,
                           .budget_divisor = 10000};
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        int got = f && fscanf(f, "%ld", &pages) == 1;
        rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 128 * MIB;
        const struct rlimit limit = {most, most};
        pst_schedule *s;
        pst_solved found;
        if (!got || setrlimit(RLIMIT_AS, &limit)) _exit(9);
        if (pst_schedule_solve(&p, &s, &found) != PST_OK) {
            fprintf(stderr, "%s\n", pst_error());
            _exit(1);
        }
        _exit(found.bound_ns < (uint64_t)9 * V * M || found.bound_ns > found.makespan_ns);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
#endif
}

static void are(uint32_t chunks, const pst_solve_placement *expected, uint32_t n) {
    pst_solve_placement place[PST_SOLVE_PLACEMENTS];
    assert_int_equal(pst_solve_placements(chunks, place), n);
    for (uint32_t i = 0; i < n; i++) {
        assert_string_equal(place[i].like, expected[i].like);
        assert_int_equal(place[i].n_virtual, expected[i].n_virtual);
    }
}

static void placements_are_those_of_rows(void **state) {
    (void)state;
    static const pst_solve_placement all[] = {
        {"1f1b-early", 1}, {"zb-v", 2}, {"interleaved", 2}, {"interleaved", 3}, {"interleaved", 4}};
    are(0, all, 5);
    are(1, all, 1);
    are(2, all + 1, 2);
    are(3, all + 3, 1);
    are(7, &(pst_solve_placement){"interleaved", 7}, 1);
}

static void what_cannot_be(void **state) {
    (void)state;
    instance x;
    uint64_t seed = 1;
    pst_schedule *s;
    pst_solved found;
    draw(&x, &seed, 3, 1, 4, 1);
    x.limit[1] = 1;
    assert_int_equal(pst_schedule_solve(&x.p, &s, &found), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(), "the memory limit of rank 1 is 1, but one micro-batch needs"));
    x.p.n_chunk = 4;
    assert_int_equal(pst_schedule_solve(&x.p, &s, &found), PST_EINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_and_order_against_brute_force),
        cmocka_unit_test(bound_of_several_chunks),
        cmocka_unit_test(holds_limits_and_beats_the_named),
        cmocka_unit_test(equal_stages_are_solved_to_the_bound),
        cmocka_unit_test(rounds),
        cmocka_unit_test(unproven_takes_little_memory),
        cmocka_unit_test(placements_are_those_of_rows),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
