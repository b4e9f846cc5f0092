/* test: label=quick
 * Two-level exchanges: every job passes the checker, walks to its end and has a memory map;
 * whatever is taken from its head or flush, changed in it, or does not wait, is refused. */
#include "pipeline/replicas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Case k: two or four replicas on each of up to four hosts, on every second one of islands. */
static replicas open_relays(uint64_t k, uint64_t *seed) {
    static const uint32_t shape[][2] = {{2, 2}, {2, 3}, {4, 2}, {2, 4}};
    const uint32_t *s = shape[k % 4], halves = k % 5 == 4 && s[0] * s[1] * 2 <= MOST;
    const int zero = (int)(k % 2);
    near_each = s[0];
    if (halves) return open_replicas(k, 2 * s[0] * s[1], zero ? SHARDED_HALVES : HALVES, 0, seed);
    return open_replicas(k, s[0] * s[1], zero, (uint32_t)(k % 3), seed);
}

static void close_relays(replicas *r) {
    close_replicas(r);
    near_each = 0;
}

/* The sums that relays send before the flush. */
static uint32_t early_sums(const pst_job *job) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            const pst_instr *in = &job->list[r].instr[i];
            const int sends = in->opcode == PST_OP_SEND && pst_job_is_piece(&job->list[r], i);
            for (uint32_t d = in->dep; sends && d < in->dep + in->n_dep; d++)
                n += job->list[r].instr[job->list[r].dep[d]].opcode == PST_OP_REDUCE;
        }
    return n;
}

static void jobs_pass(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    uint32_t forwards = 0, early = 0;
    for (uint64_t k = 1; k <= 40; k++) {
        replicas r = open_relays(k, &seed);
        must_pass(&r, 0);
        for (uint32_t i = 0; i < r.job->list[0].n_head; i++)
            forwards += r.job->list[0].instr[i].opcode == PST_OP_SEND;
        if (r.job->zero) early += early_sums(r.job); /* else owners send some, too */
        close_relays(&r);
    }
    printf("%u forwards, %u early sums of relays\n", forwards, early);
    assert_true(forwards > 20 && early > 5);
}

static void change(const replicas *t, pst_instr *in, int how) {
    const pst_instr nothing = {.opcode = PST_OP_REDUCE,
                               .queue = PST_Q_SIDE,
                               .local = PST_NONE,
                               .param = in->param,
                               .n = in->n,
                               .from = in->from,
                               .dep = in->dep,
                               .n_dep = in->n_dep};
    const int computes = pst_queue_computes(in->queue);
    switch (how) {
    case 0: in->param = (in->param + 1) % t->t.g->n_param; break;
    case 1: in->from += PST_PIECE; break;
    case 2: in->n--; break;
    case 3: in->peer = computes ? in->peer : (in->peer + 1) % t->job->n_rank; break;
    case 4: in->buffer = computes ? in->into : in->buffer; break;
    case 5: in->use = in->use == PST_NONE ? 0 : PST_NONE; break;
    case 6: in->packed = in->use == PST_NONE ? in->packed : !in->packed; break;
    case 7: in->bytes += in->n * (uint64_t)!computes; break;
    default: *in = nothing; break;
    }
}

/* One field of an instruction about a piece, or the whole instruction: no other one is right. */
static void changes_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    uint32_t n = 0;
    for (uint64_t k = 1; k <= 10; k++) {
        replicas t = open_relays(k, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++)
            for (uint32_t i = 0; i < t.job->list[r].n_instr; i++) {
                pst_instr *in = &t.job->list[r].instr[i], was = *in;
                if (!in->n || in->opcode <= PST_OP_BW || (i + k) % 3) continue;
                for (int how = 0; how < 9; how++, n++) {
                    change(&t, in, how);
                    if (memcmp(in, &was, sizeof was) && check(&t, PST_CHECK_TAGGED) == PST_OK)
                        fail_msg("case %u rank %u instruction %u: change %d is let pass",
                                 (unsigned)k, r, i, how);
                    *in = was;
                }
            }
        close_relays(&t);
    }
    assert_true(n > 500);
}

/* A relay that sends before it has added, or received, what it sends. */
static void haste_is_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    uint32_t sums = 0, forwards = 0;
    for (uint64_t k = 1; k <= 24; k++) {
        replicas t = open_relays(k, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = 0; i < list->n_instr; i++) {
                const pst_instr *in = &list->instr[i];
                for (uint32_t d = 0; d < in->n_dep; d++) {
                    uint32_t *dep = &list->dep[in->dep + d], was = *dep;
                    const pst_instr *on = &list->instr[was];
                    const int of_sum = on->opcode == PST_OP_REDUCE,
                              of_recv = on->opcode == PST_OP_RECV;
                    if (in->opcode != PST_OP_SEND || !in->n || !on->n || !(of_sum || of_recv))
                        continue;
                    if (on->param != in->param || on->from != in->from) continue;
                    *dep = 0;
                    if (was && check(&t, PST_CHECK_TAGGED) == PST_OK && of_recv &&
                        list->instr[i - 1].opcode != PST_OP_SEND)
                        fail_msg("case %u rank %u: SEND %u need not wait for %u", (unsigned)k, r, i,
                                 was);
                    *dep = was;
                    sums += of_sum;
                    forwards += of_recv;
                }
            }
        }
        close_relays(&t);
    }
    printf("%u sums, %u forwards\n", sums, forwards);
    assert_true(sums > 20 && forwards > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_pass),
                                       cmocka_unit_test(changes_are_refused),
                                       cmocka_unit_test(haste_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
