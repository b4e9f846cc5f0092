/* test: timeout=60
 * Jobs of several replicas: every one that is built passes the checker in both modes, and walks to
 * its end, also with gradients that replicas pack, with the outer step of islands, and with delayed
 * updates; whatever is taken from its head or flush, from rounds of gradients (zero 2) or from an
 * exchange beside the passes, or changed in them, is refused. */
#include "pipeline/replicas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void pass(int islands, uint64_t seed) {
    for (uint64_t k = 1; k <= (islands ? 48 : 60); k++) {
        const int zero = islands ? -1 - (int)(k % 4) : (int)(k / 4 % 3);
        replicas r = open_replicas(k, replicas_of(k, zero), zero, (uint32_t)(k % 4), &seed);
        must_pass(&r, k % 2 && !islands);
        close_replicas(&r);
    }
}

static void jobs_pass(void **state) {
    (void)state;
    pass(0, test_seed(1));
    pass(1, test_seed(11));
}

static void jobs_with_servers_pass(void **state) {
    (void)state;
    uint64_t seed = test_seed(10);
    for (uint64_t k = 1; k <= 15; k++) {
        const uint32_t n = 2 + (uint32_t)(k % 4);
        replicas r = open_served(k, n, 1, (uint32_t)(k % 4), 1 + (uint32_t)(k % 3), &seed);
        must_pass(&r, k % 2 && !r.job->eager);
        close_replicas(&r);
    }
}

static replicas open_delayed(uint64_t k, uint64_t *seed) {
    const uint32_t servers = k % 3 ? 0 : 1 + (uint32_t)(k % 2);
    delay = 1 + (uint32_t)(k % 2);
    return open_served(k, 2 + (uint32_t)(k % 4), servers ? 1 : (int)(k % 2), (uint32_t)(k % 4),
                       servers, seed);
}

static void close_delayed(replicas *r) {
    close_replicas(r);
    delay = 0;
}

static void delayed_jobs_pass(void **state) {
    (void)state;
    uint64_t seed = test_seed(13);
    for (uint64_t k = 1; k <= 24; k++) {
        replicas r = open_delayed(k, &seed);
        must_pass(&r, 0);
        close_delayed(&r);
    }
}

/* As if the instruction did nothing. */
static pst_instr nothing_instead_of(const pst_instr *in) {
    return (pst_instr){.opcode = PST_OP_REDUCE,
                       .queue = PST_Q_SIDE,
                       .local = PST_NONE,
                       .param = in->param,
                       .n = in->n,
                       .from = in->from,
                       .dep = in->dep,
                       .n_dep = in->n_dep};
}

/* Another value of a field of a message or REDUCE beside the passes. */
static void change_beside(const replicas *t, pst_instr *in, int change) {
    if (change == 0) in->param = (in->param + 1) % t->t.g->n_param;
    if (change == 1) in->from += PST_PIECE;
    if (change == 2) in->n--;
    if (change == 3 && in->opcode == PST_OP_REDUCE) in->buffer = in->into;
    else if (change == 3) in->peer = (in->peer + 1) % t->job->n_rank;
    if (change == 4) in->use = PST_NONE;
    if (change == 5) in->queue = in->queue == PST_Q_SIDE ? PST_Q_COMPUTE : PST_Q_SEND;
    if (change == 6) *in = nothing_instead_of(in);
}

static void refuse_beside(const replicas *t, uint32_t r, uint32_t i) {
    pst_instr *in = &t->job->list[r].instr[i];
    const pst_instr was = *in;
    for (int change = 0; change < 7; change++) {
        change_beside(t, in, change);
        if (memcmp(in, &was, sizeof was) && check(t, PST_CHECK_TAGGED) == PST_OK)
            fail_msg("rank %u instruction %u: change %d is let pass", r, i, change);
        *in = was;
    }
}

/* NORM reads the sums that this rank owns, STEP those that it receives. */
static int refuse_haste(const replicas *t, uint32_t r, uint32_t i) {
    pst_instr_list *list = &t->job->list[r];
    pst_instr *in = &list->instr[i], was = *in;
    int refused = 0;
    for (uint32_t d = was.dep; d < was.dep + was.n_dep; d++) {
        const pst_instr *on = &list->instr[list->dep[d]];
        const int sums = on->n && on->use != PST_NONE &&
                         (on->queue == PST_Q_SIDE || (on->opcode == PST_OP_RECV && !on->buffer));
        if (!sums) continue;
        const uint32_t kept = list->dep[d];
        list->dep[d] = 0; /* the first instruction has long ended */
        if (check(t, PST_CHECK_TAGGED) == PST_OK && in->opcode == PST_OP_NORM)
            fail_msg("rank %u: NORM need not wait for instruction %u", r, kept);
        refused += check(t, PST_CHECK_TAGGED) != PST_OK;
        list->dep[d] = kept;
    }
    return refused;
}

static void damaged_delayed_updates_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(14);
    int beside = 0, refused = 0;
    for (uint64_t k = 1; k <= 6; k++) {
        replicas t = open_delayed(k, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++)
            for (uint32_t i = t.job->list[r].n_head; i < t.job->list[r].n_instr; i++) {
                const pst_instr *in = &t.job->list[r].instr[i];
                if (in->opcode == PST_OP_NORM || in->opcode == PST_OP_STEP)
                    refused += refuse_haste(&t, r, i);
                if (!in->n || in->opcode <= PST_OP_BW || i % 3) continue;
                refuse_beside(&t, r, i);
                beside++;
            }
        MUST(check(&t, PST_CHECK_TAGGED));
        t.job->eager = 1;
        assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
        close_delayed(&t);
    }
    assert_true(beside > 50 && refused > 20);
}

/* Instructions of servers. */
static void damaged_servers_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(9);
    for (uint64_t k = 1; k <= 2; k++) {
        replicas t = open_served(k, 2 + (uint32_t)(k % 3), 1, 0, 1, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            if (!pst_job_is_server(t.job, r)) continue;
            for (uint32_t i = 0; i < list->n_instr; i += 1 + i % 3) {
                const pst_instr was = list->instr[i];
                const int updates = was.opcode == PST_OP_STEP || was.queue == PST_Q_HEAD;
                if (t.job->eager && updates) {
                    list->instr[i].from += PST_PIECE;
                    assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                    list->instr[i] = was;
                    list->instr[i].n_dep = 0; /* further messages follow the first in its queue */
                    if (was.n_dep && list->instr[i - 1].opcode == PST_OP_STEP)
                        assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                    list->instr[i] = was;
                }
                if (was.opcode != PST_OP_REDUCE && was.opcode != PST_OP_RECV) continue;
                if (was.param == PST_NONE) continue;
                list->instr[i].buffer = was.buffer ? 0 : 1;
                assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                list->instr[i] = was;
                list->instr[i].from += PST_PIECE;
                assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                list->instr[i] = was;
                if (was.opcode == PST_OP_RECV || !was.n_dep) continue;
                list->instr[i].n_dep = 0;
                assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                list->instr[i] = was;
            }
        }
        MUST(check(&t, PST_CHECK_TAGGED));
        close_replicas(&t);
    }
}

static void lost_deps_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    uint32_t refused = 0, kept = 0;
    for (uint64_t k = 1; k <= 23; k++) {
        const int zero = k > 16 ? -1 - (int)(k % 4) : (int)(k / 3 % 3);
        replicas t = open_replicas(k, zero < ISLANDS ? 4 : 2 + (uint32_t)(k % 3), zero, 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = 0; i < list->n_instr; i++) {
                pst_instr *in = &list->instr[i], before = *in;
                if (i < list->n_instr - list->n_flush && in->param == PST_NONE) continue;
                for (; in->n_dep > 0; in->n_dep--, in->dep++) {
                    pst_instr now = *in;
                    in->dep++;
                    in->n_dep--;
                    check(&t, PST_CHECK_TAGGED) == PST_OK ? kept++ : refused++;
                    *in = now;
                }
                *in = before;
            }
        }
        close_replicas(&t);
    }
    printf("%u deps of flushes are needed, %u are implied\n", refused, kept);
    assert_true(refused > kept); /* other ranks see to many of them */
}

/* One field of an instruction about a piece: no other value is right. */
static void changes_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    for (uint64_t k = 1; k <= 27; k++) {
        const int zero = k > 16 ? -1 - (int)(k % 4) : (int)(k / 3 % 3);
        replicas t = open_replicas(k, zero < ISLANDS ? 4 : 2 + (uint32_t)(k % 4), zero, 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = 0; i < list->n_instr; i++) {
                pst_instr *in = &list->instr[i], before = *in;
                int pass = in->opcode <= PST_OP_BW, rest = i >= list->n_head && !pass;
                if (!in->n) continue; /* all of the head has some */
                for (int change = 0; change < 10; change++) {
                    if (pass && change != 1 && change != 2) continue;
                    if (change == 0) in->param = (in->param + 1) % t.t.g->n_param;
                    if (change == 1) in->from += PST_PIECE;
                    if (change == 2) in->n--;
                    if (change == 3 && in->opcode == PST_OP_OUTER) in->buffer++;
                    else if (change == 3 && in->queue == PST_Q_COMPUTE) in->buffer = in->into;
                    else if (change == 3) in->peer = (in->peer + 1) % t.job->n_rank;
                    if (change == 4) in->use = in->use == PST_NONE ? 0 : PST_NONE;
                    if (change == 5 && in->opcode == PST_OP_RECV && before.buffer)
                        in->buffer =
                            (in->outer ? pst_job_outer_buffers : pst_job_buffers)(t.job) + 1;
                    if (change == 8 && zero < 0 && (in->outer || rest)) in->outer = !in->outer;
                    else if (change == 8 && rest) in->packed = !in->packed;
                    if (change == 9 && (zero > -1 || !rest || !in->outer)) continue;
                    if (change == 9) in->packed = !in->packed;
                    if (change > 5 && change < 8 && (!rest || i >= list->n_instr - list->n_flush))
                        continue; /* these are of rounds, or early */
                    if (change == 6) in->micro = (in->micro + 1) % t.job->n_micro;
                    if (change == 7)
                        in->into = in->into == PST_INTO_ACCUMULATOR ? 0 : PST_INTO_ACCUMULATOR;
                    if (change == 7 && in->opcode != PST_OP_REDUCE) *in = before;
                    if (memcmp(in, &before, sizeof before) && check(&t, PST_CHECK_TAGGED) == PST_OK)
                        fail_msg("graph %u rank %u instruction %u: change %d is let pass",
                                 (unsigned)k, r, i, change);
                    *in = before;
                }
            }
        }
        close_replicas(&t);
    }
}

/* Also of an island: nobody else receives what it has sent, or sends what it expects. */
static void an_outer_step_is_whole(void **state) {
    (void)state;
    uint64_t seed = test_seed(12);
    uint32_t taken = 0;
    for (uint64_t k = 1; k <= 19; k++) {
        const int zero = k > 4 ? TURNS : -1 - (int)(k % 3);
        if (k > 4 && k % 4 != 3) continue; /* turns change with k / 4 */
        replicas t = open_replicas(k, zero < ISLANDS ? 4 : 2 + (uint32_t)(k % 4), zero, 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = 0; i < list->n_instr; i++) {
                const pst_instr before = list->instr[i];
                if (!before.outer && before.opcode != PST_OP_OUTER) continue;
                list->instr[i] = (pst_instr){.opcode = PST_OP_REDUCE, /* of nothing */
                                             .queue = PST_Q_COMPUTE,
                                             .param = PST_NONE,
                                             .local = PST_NONE,
                                             .use = PST_NONE};
                if (check(&t, PST_CHECK_TAGGED) == PST_OK)
                    fail_msg("graph %u rank %u instruction %u is not missed", (unsigned)k, r, i);
                list->instr[i] = before;
                taken++;
            }
        }
        t.job->syncs = 0;
        assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
        close_replicas(&t);
    }
    assert_true(taken > 100);
}

/* A gradient that is sent, or added, before it is packed, or while another rank's is unpacked. */
static void packing_is_waited_for(void **state) {
    (void)state;
    uint64_t seed = test_seed(9);
    uint32_t packs = 0, unpacks = 0, early = 0;
    for (uint64_t k = 2; k <= 40; k++) {
        replicas t = open_replicas(k, 2 + (uint32_t)(k % 4), (int)(k / 4 % 2), 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = list->n_head; i + 1 < list->n_instr; i++) {
                pst_instr *in = &list->instr[i], before = *in;
                if (in->opcode != PST_OP_PACK && in->opcode != PST_OP_UNPACK) continue;
                in->opcode == PST_OP_PACK ? packs++ : unpacks++;
                early += i < list->n_instr - list->n_flush;
                /* as if it did nothing: a pack or an unpack is missing */
                *in = (pst_instr){.opcode = PST_OP_REDUCE,
                                  .queue = in->queue,
                                  .local = PST_NONE,
                                  .param = in->param,
                                  .n = in->n,
                                  .from = in->from,
                                  .dep = in->dep,
                                  .n_dep = in->n_dep};
                if (check(&t, PST_CHECK_TAGGED) == PST_OK)
                    fail_msg("graph %u rank %u: instruction %u may be missing", (unsigned)k, r, i);
                *in = before;
                if (list->instr[i + 1].opcode != PST_OP_SEND || !list->instr[i + 1].n) continue;
                pst_instr *send = &list->instr[i + 1], was = *send;
                if (in->opcode != PST_OP_PACK || !send->n_dep) continue;
                assert_int_equal(list->dep[send->dep], i);
                send->n_dep = 0; /* sent before it is packed */
                if (check(&t, PST_CHECK_TAGGED) == PST_OK)
                    fail_msg("graph %u rank %u: SEND %u need not wait", (unsigned)k, r, i + 1);
                *send = was;
            }
        }
        close_replicas(&t);
    }
    printf("%u packs, %u unpacks, %u of them early\n", packs, unpacks, early);
    assert_true(packs > 40 && unpacks > 4 && early > 4);
}

/* A gradient that leaves before the part of the pass that completes it has ended. */
static void parts_are_waited_for(void **state) {
    (void)state;
    uint64_t seed = test_seed(7);
    uint32_t parts = 0, sums = 0, refused = 0;
    for (uint64_t k = 2; k <= 80; k += 2) {
        replicas t = open_replicas(k, 2 + (uint32_t)(k % 3), (int)(k / 4 % 2), 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            uint32_t before[2] = {PST_NONE, PST_NONE}; /* the latest part, and the one before it */
            uint32_t waited = PST_NONE; /* for this one its SENDs wait since then, as a queue */
            for (uint32_t i = list->n_head; i < list->n_instr; i++) {
                pst_instr *in = &list->instr[i];
                if (in->opcode <= PST_OP_BW && in->n) {
                    before[0] = in->from ? before[1] : PST_NONE;
                    before[1] = i;
                    parts++;
                }
                if (in->opcode == PST_OP_REDUCE && in->n && i < list->n_instr - list->n_flush)
                    sums++;
                int sends = in->opcode == PST_OP_SEND && in->n &&
                            t.t.g->param[in->param].n_use == 1; /* else with the last part */
                for (uint32_t d = 0; sends && d < in->n_dep; d++) {
                    uint32_t *dep = list->dep + in->dep + d;
                    if (list->instr[*dep].opcode == PST_OP_PACK) waited = before[1];
                    if (*dep != before[1] || before[0] == PST_NONE || *dep == waited) continue;
                    *dep = before[0];
                    if (check(&t, PST_CHECK_TAGGED) == PST_OK)
                        fail_msg("graph %u rank %u instruction %u leaves too early", (unsigned)k, r,
                                 i);
                    waited = *dep = before[1];
                    refused++;
                }
            }
        }
        close_replicas(&t);
    }
    printf("%u parts, %u sums between them, %u dependencies refused\n", parts, sums, refused);
    assert_true(parts > 40 && sums > 20 && refused > 20);
}

/* Takes the n-th instruction of the head from a list, with the deps on it. */
static void leave_out(pst_instr_list *list, uint32_t at) {
    for (uint32_t i = 0; i < list->n_instr; i++) {
        pst_instr *in = &list->instr[i];
        uint32_t *dep = list->dep + in->dep, n = 0;
        for (uint32_t d = 0; d < in->n_dep; d++)
            if (dep[d] != at) dep[n++] = dep[d] - (dep[d] > at);
        in->n_dep = n;
    }
    memmove(list->instr + at, list->instr + at + 1, (--list->n_instr - at) * sizeof *list->instr);
    list->n_head--;
}

static uint32_t partner(const pst_job *job, uint32_t rank, uint32_t at) {
    const pst_instr *in = &job->list[rank].instr[at];
    const pst_instr_list *list = &job->list[in->peer];
    for (uint32_t i = 0; i < list->n_head; i++)
        if (list->instr[i].opcode != in->opcode && list->instr[i].peer == rank &&
            list->instr[i].seq == in->seq)
            return i;
    fail_msg("a message of the head has one end");
    return 0;
}

/* Weights that do not come at all, and weights that a pass does not wait for although none before
 * it has. */
static void weights_are_needed(void **state) {
    (void)state;
    uint64_t seed = test_seed(4);
    uint32_t missing = 0, early = 0;
    for (uint64_t k = 1; k <= 12; k++) {
        replicas t = open_replicas(k, 2 + (uint32_t)(k % 3), 1 + (int)(k % 2), 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            uint32_t from = PST_NONE; /* the first pass */
            for (uint32_t i = list->n_instr; i-- > list->n_head;)
                if (list->instr[i].opcode == PST_OP_F) from = i;
            pst_instr *in = &list->instr[from];
            for (uint32_t d = 0; d < in->n_dep; d++) {
                uint32_t *dep = list->dep + in->dep + d, was = *dep, n = in->n_dep;
                if (was >= list->n_head) continue;
                *dep = list->dep[in->dep + n - 1];
                if (d == n - 1) in->n_dep--;
                assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
                *dep = was;
                in->n_dep = n;
                early++;
            }
        }
        uint32_t r = (uint32_t)(k % t.job->n_rank), n = t.job->list[r].n_head;
        if (n) {
            uint32_t at = (uint32_t)(next_random(&seed) % n), peer = t.job->list[r].instr[at].peer;
            leave_out(&t.job->list[peer], partner(t.job, r, at));
            leave_out(&t.job->list[r], at);
            assert_int_equal(check(&t, PST_CHECK_TAGGED), PST_EINPUT);
            assert_non_null(strstr(pst_error(), "are not received"));
            missing++;
        }
        close_replicas(&t);
    }
    assert_true(missing > 6 && early > 20);
}

/* Weights come to a rank one after another: none is there before all before it could be. */
static void weights_queue(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    for (uint64_t k = 1; k <= 12; k++) {
        replicas t = open_replicas(k, 2 + (uint32_t)(k % 3), 1 + (int)(k % 2), 0, &seed);
        pst_timing *timing;
        assert_int_equal(pst_simulate(t.job, &timing), PST_OK);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            const pst_instr_list *list = &t.job->list[r];
            uint64_t came = 0, last = 0;
            for (uint32_t i = 0; i < list->n_head; i++) {
                const pst_instr *in = &list->instr[i];
                if (in->opcode != PST_OP_RECV) continue;
                came += in->wire_ns;
                assert_int_equal(in->ns, in->wire_ns + 50);
                if (timing->span[r][i].end > last) last = timing->span[r][i].end;
            }
            assert_true(!came || last >= came + 50);
        }
        pst_timing_close(timing);
        close_replicas(&t);
    }
}

static uint32_t moved_to(uint32_t i, uint32_t from, uint32_t to) {
    if (i < from || i > to) return i;
    return i == from ? to : i - 1;
}

/* Moves an instruction to a later place of its list, and what names others with it; 0: one between
 * waits for it. */
static int move_later(pst_instr_list *list, uint32_t from, uint32_t to) {
    for (uint32_t i = from + 1; i <= to; i++)
        for (uint32_t d = 0; d < list->instr[i].n_dep; d++)
            if (list->dep[list->instr[i].dep + d] == from) return 0;
    for (uint32_t d = 0; d < list->n_dep; d++) list->dep[d] = moved_to(list->dep[d], from, to);
    pst_instr moved = list->instr[from];
    memmove(list->instr + from, list->instr + from + 1, (to - from) * sizeof moved);
    list->instr[to] = moved;
    return 1;
}

/* The first REDUCE of a piece, and the last before it that adds up the rank's own accumulators of
 * the parameter. */
static int find_sums(const pst_instr_list *list, uint32_t param, uint32_t *own, uint32_t *piece) {
    *own = *piece = PST_NONE;
    for (uint32_t i = 0; i < list->n_instr && *piece == PST_NONE; i++) {
        const pst_instr *in = &list->instr[i];
        if (in->opcode != PST_OP_REDUCE || in->param != param) continue;
        *(in->n ? piece : own) = i;
    }
    return *own != PST_NONE && *piece != PST_NONE;
}

/* Added once all replicas have been, or among them, is another order of additions: other bits. */
static void own_parts_come_first(void **state) {
    (void)state;
    uint64_t seed = test_seed(6);
    uint32_t moved = 0;
    for (uint64_t k = 8; k < 24; k++) { /* of two and three parts */
        replicas t = open_replicas(k, 2 + (uint32_t)(k % 3), (int)(k / 3 % 2), 0, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++)
            for (uint32_t p = 0; p < t.t.g->n_param; p++) {
                pst_instr_list *list = &t.job->list[r], before = *list;
                uint32_t own, piece;
                if (!find_sums(list, p, &own, &piece)) continue;
                list->instr = malloc(list->n_instr * sizeof *list->instr);
                list->dep = malloc((list->n_dep + (size_t)1) * sizeof *list->dep);
                memcpy(list->instr, before.instr, list->n_instr * sizeof *list->instr);
                memcpy(list->dep, before.dep, list->n_dep * sizeof *list->dep);
                if (move_later(list, own, piece)) {
                    moved++;
                    if (check(&t, PST_CHECK_TAGGED) == PST_OK)
                        fail_msg("graph %u rank %u parameter %u: own parts are added late",
                                 (unsigned)k, r, p);
                }
                free(list->instr);
                free(list->dep);
                *list = before;
            }
        close_replicas(&t);
    }
    printf("%u sums moved\n", moved);
    assert_true(moved > 20);
}

/* Even among replicas, whole pieces, nothing left over. */
static void shares_are_even(void **state) {
    (void)state;
    for (uint64_t k = 1; k <= 40; k++) {
        uint64_t seed = k;
        test_case t = {.g = random_graph(k)};
        build_case(&t, 1 + (uint32_t)(k % 3), 0, 2, &seed);
        for (uint32_t p = 0; p < t.g->n_param; p++)
            t.g->param[p].dim[0] = 1 + (k * 7919 + p * 104729) % (9 * PST_PIECE);
        for (uint32_t n = 1; n <= 7; n++) {
            pst_share *s;
            uint64_t load[3][7] = {{0}}, most_param = 0;
            const pst_share_owners owners = {t.n_rank, n, NULL};
            MUST(pst_share_build(t.cut, t.job->rank_of_chunk, &owners, &s));
            for (uint32_t p = 0; p < t.g->n_param; p++) {
                uint64_t at = 0, elements = pst_param_elements(t.g->param + p);
                if (!t.g->param[p].n_use) continue;
                uint32_t stage = t.job->rank_of_chunk[t.cut->use_chunk[t.cut->use_first[p]]];
                for (uint32_t r = 0; r < n; r++) {
                    assert_int_equal(pst_share_from(s, p, r), at);
                    at = pst_share_to(s, p, r);
                    assert_true(at % PST_PIECE == 0 || at == elements);
                    load[stage][r] += at - pst_share_from(s, p, r);
                }
                assert_int_equal(at, elements);
                most_param = elements > most_param ? elements : most_param;
            }
            for (uint32_t stage = 0; stage < t.n_rank; stage++)
                for (uint32_t r = 1; r < n; r++) {
                    uint64_t a = load[stage][0], b = load[stage][r];
                    assert_true((a > b ? a - b : b - a) <=
                                (uint64_t)PST_PIECE * (t.g->n_param + 1));
                }
            pst_share_close(s);
        }
        t.g->param[0].dim[0] = UINT64_C(1) << 40; /* more than instructions can count */
        pst_share *s;
        const pst_share_owners two = {t.n_rank, 2, NULL};
        assert_int_equal(pst_share_build(t.cut, t.job->rank_of_chunk, &two, &s), PST_EINPUT);
        pst_graph *g = t.g;
        close_case(&t);
        pst_graph_close(g);
    }
}

/* Where replicas are alike, two gradient slots do; every pass has a slot. */
static void two_slots(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    for (uint64_t k = 1; k <= 40; k++) {
        replicas r = open_replicas(k, 2 + (uint32_t)(k % 3), 2, 1, &seed);
        for (uint32_t lane = 0; lane < r.n; lane++)
            for (uint32_t i = 0; i < r.t.n_chunk * 3; i++)
                assert_in_range(r.slots[lane]->gradient[i], 0, 1);
        close_replicas(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_pass),
                                       cmocka_unit_test(delayed_jobs_pass),
                                       cmocka_unit_test(damaged_delayed_updates_are_refused),
                                       cmocka_unit_test(jobs_with_servers_pass),
                                       cmocka_unit_test(damaged_servers_are_refused),
                                       cmocka_unit_test(lost_deps_are_refused),
                                       cmocka_unit_test(changes_are_refused),
                                       cmocka_unit_test(an_outer_step_is_whole),
                                       cmocka_unit_test(packing_is_waited_for),
                                       cmocka_unit_test(parts_are_waited_for),
                                       cmocka_unit_test(weights_are_needed),
                                       cmocka_unit_test(weights_queue),
                                       cmocka_unit_test(own_parts_come_first),
                                       cmocka_unit_test(shares_are_even),
                                       cmocka_unit_test(two_slots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
