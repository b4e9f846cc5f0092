/* What schedules hold in flight: what the search says by their rules, and what is counted in the
 * schedules themselves. */
#include "partition/search/space.h"
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

/* Most micro-batches of each chunk from one pass to the end of another. */
static void count(const pst_schedule *s, pst_opcode from, pst_opcode to, uint32_t *most) {
    uint32_t *alive = calloc(s->n_chunk, sizeof *alive);
    memset(most, 0, s->n_chunk * sizeof *most);
    for (uint32_t r = 0; r < s->n_rank; r++)
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            if (a->opcode == from && ++alive[a->chunk] > most[a->chunk])
                most[a->chunk] = alive[a->chunk];
            if (a->opcode == to) alive[a->chunk]--;
        }
    free(alive);
}

static void compare(const pst_schedule *s, const char *what, const uint32_t *says,
                    const uint32_t *most) {
    for (uint32_t k = 0; k < s->n_chunk; k++)
        if (says[k] != most[k])
            fail_msg("%s, %u stages, %u micro-batches: chunk %u has %u from %s, not %u", s->name,
                     s->n_rank, s->n_micro, k, most[k], what, says[k]);
}

/* From F to B, of all chunks of a stage at once. */
static void check_held(const pst_schedule *s, const pst_search_flight *f) {
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint32_t held = 0, most = 0;
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            pst_opcode op = s->action[r][i].opcode;
            if (op == PST_OP_F && ++held > most) most = held;
            if (op == PST_OP_B || op == PST_OP_BW) held--;
        }
        if (f->stage_f_to_b[r] != most)
            fail_msg("%s, %u stages, %u micro-batches: stage %u holds %u, not %u", s->name,
                     s->n_rank, s->n_micro, r, most, f->stage_f_to_b[r]);
    }
}

/* F of each chunk before the first B of its stage, and that the stage's first chunk is done
 * last. */
static void check_ends(const pst_schedule_row *row, const pst_schedule *s) {
    const pst_schedule_size size = {s->n_rank, s->n_chunk / s->n_rank, s->n_micro};
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint32_t warm[2] = {0}, n = s->n_action[r], i = 0;
        for (; s->action[r][i].opcode == PST_OP_F; i++)
            if (s->action[r][i].chunk < 2 * s->n_rank) warm[s->action[r][i].chunk >= s->n_rank]++;
        assert_int_equal(s->action[r][n - 1].chunk, r);
        for (uint32_t nth = 0; s->split && nth < s->n_chunk / s->n_rank; nth++)
            if (pst_schedule_warm_up(row, &size, r, nth) != warm[nth])
                fail_msg("%s, %u stages, %u micro-batches: stage %u has %u F of chunk %u before "
                         "its first B, not %u",
                         s->name, s->n_rank, s->n_micro, r, warm[nth], nth,
                         pst_schedule_warm_up(row, &size, r, nth));
    }
}

static void check(pst_search_context *x, uint32_t p, uint32_t chunks, uint32_t m) {
    const char *name = x->row[0]->name;
    const pst_search_flight *f;
    pst_schedule *s;
    MUST(pst_search_flight_of(x, 0, p, chunks, m, &f));
    MUST(pst_schedule_generate(name, p, chunks, m, &s));
    uint32_t *most = calloc(s->n_chunk, sizeof *most);
    check_ends(x->row[0], s);
    assert_int_equal(f->n_chunk, s->n_chunk);
    assert_memory_equal(f->stage, s->rank_of_chunk, s->n_chunk * sizeof *f->stage);
    count(s, PST_OP_F, s->split ? PST_OP_W : PST_OP_BW, most);
    compare(s, "F to W", f->f_to_w, most);
    count(s, PST_OP_F, s->split ? PST_OP_B : PST_OP_BW, most);
    compare(s, "F to B", f->f_to_b, most);
    count(s, PST_OP_B, PST_OP_W, most);
    compare(s, "B to W", f->b_to_w, most);
    check_held(s, f);
    free(most);
    pst_schedule_close(s);
}

static void as_counted(void **unused) {
    (void)unused;
    search_case *c = case_open(1, 1, 1);
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    for (uint32_t i = 0; i < n; i++) {
        pst_search_context x;
        if (row[i].kind == PST_SCHEDULE_FORWARD) continue;
        c->problem.n_schedule = 1;
        c->problem.schedule[0] = row[i].name;
        MUST(pst_search_context_open(&c->problem, &x));
        for (uint32_t p = 1; p <= 9; p++)
            for (uint32_t m = 1; m <= 7 * p + 5; m++)
                for (uint32_t chunks = row[i].n_virtual ? row[i].n_virtual : 2; chunks <= 3;
                     chunks++) {
                    check(&x, p, chunks, m);
                    if (row[i].n_virtual) break;
                }
        pst_search_context_close(&x);
    }
    case_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
