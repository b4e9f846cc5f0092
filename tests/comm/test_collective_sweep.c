/* test: label=quick */
/* Collectives among groups over self, one thread driving all: random kinds, sizes, unequal parts,
 * groups side by side and with ranks in common, hosts, delays, every algorithm; the documented
 * order of each algorithm's additions; and the same bits on all ranks and in every repetition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/collect.h"
#include "comm/fault.h"
#include "comm/transport/transport.h"

enum { SEED = 2024, RANKS = 9, GROUPS = 4, ROUNDS = 400000 };

/* Several groups of the ranks of one hub, each with a collective of its own. */
typedef struct {
    uint32_t n, member[RANKS];
    collect what;
    pst_coll *coll[RANKS];
    uint8_t *mem[RANKS];
} group;

typedef struct {
    uint32_t n_rank, n_group, host[RANKS];
    pst_self_hub *hub;
    pst_transport *end[RANKS];
    int wrapped;
    uint64_t key; /* what groups are given besides */
    group group[GROUPS];
} job;

static void hub_open(job *j, uint32_t n_rank, uint64_t delay_polls) {
    *j = (job){.n_rank = n_rank, .wrapped = delay_polls != 0};
    assert_int_equal(pst_self_hub_open(n_rank, NULL, &j->hub), PST_OK);
    for (uint32_t r = 0; r < n_rank; r++) {
        pst_fault_spec spec = {.delay_polls = delay_polls ? delay_polls + r % 3 : 0};
        j->end[r] = pst_self_hub_endpoint(j->hub, r);
        if (delay_polls)
            assert_int_equal(
                pst_transport_fault_open(pst_self_hub_endpoint(j->hub, r), &spec, &j->end[r]),
                PST_OK);
    }
}

static void group_share(group *g) {
    uint32_t busy = 1;
    for (uint32_t i = 0; i < g->n; i++) assert_int_equal(pst_coll_share(g->coll[i]), PST_OK);
    for (uint32_t round = 0; busy && round < 1000; round++) {
        busy = 0;
        for (uint32_t i = 0; i < g->n; i++) busy += pst_coll_test(g->coll[i]) == PST_BUSY;
    }
    assert_int_equal(busy, 0);
}

/* The ranks r with `chosen` set, turned round by `shift`: a group's order is not that of its
 * ranks. */
static void group_open(job *j, uint32_t chosen, uint32_t shift) {
    uint32_t sorted[RANKS], n = 0;
    group *g = &j->group[j->n_group];
    for (uint32_t r = 0; r < j->n_rank; r++)
        if (chosen >> r & 1) sorted[n++] = r;
    g->n = n;
    for (uint32_t i = 0; i < n; i++) g->member[i] = sorted[(i + shift) % n];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t channel = PST_CHANNEL_COLLECTIVE + j->n_group;
        assert_int_equal(pst_coll_open(j->end[g->member[i]], g->member, n, channel, &g->coll[i]),
                         PST_OK);
        assert_int_equal(pst_coll_hosts(g->coll[i], j->host), PST_OK);
    }
    if (j->key && collect_word(j->key, 60 + j->n_group) % 8 == 0) group_share(g);
    j->n_group++;
}

static void group_fill(group *g, const collect *what) {
    g->what = *what;
    for (uint32_t i = 0; i < g->n; i++) {
        free(g->mem[i]);
        g->mem[i] = malloc(collect_bytes(what) + COLLECT_GUARD);
        assert_non_null(g->mem[i]);
        collect_fill(what, i, g->mem[i]);
    }
}

static void job_close(job *j) {
    for (uint32_t k = 0; k < j->n_group; k++)
        for (uint32_t i = 0; i < j->group[k].n; i++) {
            pst_coll_close(j->group[k].coll[i]);
            free(j->group[k].mem[i]);
        }
    for (uint32_t r = 0; j->wrapped && r < j->n_rank; r++) j->end[r]->ops->close(j->end[r]);
    pst_self_hub_close(j->hub);
}

/* Starts and drives all groups; who starts and is asked when depends on `turn`. */
static pst_status drive(job *j, uint64_t turn) {
    uint64_t key = pst_rng_key(turn, "drive");
    uint32_t started[GROUPS][RANKS] = {{0}};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t busy = 0;
        for (uint32_t k = 0; k < j->n_group; k++)
            for (uint32_t at = 0; at < j->group[k].n; at++) {
                group *g = &j->group[k];
                uint32_t i = (at * (turn % 2 ? 1 : g->n - 1) + (uint32_t)turn) % g->n;
                if (!started[k][i]) {
                    busy++;
                    if (round < 50 && collect_word(key, round * 64 + k * 16 + i) % 4) continue;
                    PST_TRY(collect_start(&g->what, g->coll[i], g->mem[i]));
                    started[k][i] = 1;
                }
                pst_status status = pst_coll_test(g->coll[i]);
                if (status != PST_OK && status != PST_BUSY) return status;
                busy += status == PST_BUSY;
            }
        if (!busy) return PST_OK;
    }
    return PST_BUSY;
}

static void check(const job *j) {
    for (uint32_t k = 0; k < j->n_group; k++)
        for (uint32_t i = 0; i < j->group[k].n; i++) {
            const char *wrong = collect_check(&j->group[k].what, i, j->group[k].mem[i]);
            if (!wrong) continue;
            collect_print(&j->group[k].what);
            fail_msg("group %u, member %u: %s", k, i, wrong);
        }
}

static void random_groups(uint64_t seed, uint32_t rounds, uint64_t most) {
    for (uint64_t k = 0; k < rounds; k++) {
        job j;
        uint64_t key = pst_rng_key(seed + k, "groups");
        uint32_t n = 1 + collect_word(key, 1) % RANKS, n_group = 1 + collect_word(key, 2) % GROUPS;
        hub_open(&j, n, k % 3 == 0 ? 1 + collect_word(key, 3) % 20 : 0);
        j.key = key;
        for (uint32_t r = 0; r < n; r++) j.host[r] = k % 2 ? r / 3 : collect_word(key, 20 + r) % 3;
        for (uint32_t g = 0; g < n_group; g++)
            group_open(&j,
                       1u << collect_word(key, 4 + 2 * g) % n |
                           (g ? collect_word(key, 5 + 2 * g) : UINT32_MAX),
                       k % 4 ? 0 : g);
        for (uint32_t again = 0; again < 3; again++) {
            for (uint32_t g = 0; g < n_group; g++) {
                collect what = collect_draw(key + again, 40 + g, j.group[g].n, most);
                group_fill(&j.group[g], &what);
            }
            pst_status status = drive(&j, k + again);
            for (uint32_t g = 0; status != PST_OK && g < n_group; g++)
                collect_print(&j.group[g].what);
            if (status != PST_OK)
                fail_msg("round %llu: %s", (unsigned long long)k,
                         status == PST_BUSY ? "stuck" : pst_error());
            check(&j);
        }
        job_close(&j);
    }
}

static void small_ones(void **state) {
    (void)state;
    printf("seed %d\n", SEED);
    random_groups(SEED, 250, 3000);
}

static void large_ones(void **state) {
    (void)state;
    random_groups(SEED + 1000, 8, 1000000);
}

/* --- order of additions ----------------------------------------------------------------------- */

static float tree_sum(const float *own, uint32_t n, uint32_t v) {
    float sum = own[v];
    for (uint32_t bit = 1; v + bit < n && !(v & bit); bit <<= 1) sum += tree_sum(own, n, v + bit);
    return sum;
}

static float doubling_sum(float *own, uint32_t n) {
    uint32_t half = 1;
    while (2 * half <= n) half *= 2;
    for (uint32_t i = half; i < n; i++) own[i - half] += own[i];
    for (uint32_t bit = 1; bit < half; bit *= 2)
        for (uint32_t i = 0; i < half; i++)
            if (!(i & bit)) own[i] = own[i | bit] = own[i] + own[i | bit];
    return own[0];
}

/* Of an element of member p's part. */
static float owner_sum(const float *own, uint32_t n, uint32_t p, int ring) {
    float sum = own[(p + (uint32_t)ring) % n];
    for (uint32_t k = 1; k < n; k++) sum += own[(p + k + (uint32_t)ring) % n];
    return sum;
}

static float expected(const char *algorithm, const float *own, uint32_t n, uint32_t part) {
    float copy[RANKS];
    memcpy(copy, own, sizeof copy);
    if (!strcmp(algorithm, "tree")) return tree_sum(own, n, 0);
    if (!strcmp(algorithm, "doubling")) return doubling_sum(copy, n);
    return owner_sum(own, n, part, !strcmp(algorithm, "ring"));
}

static void fill_normal(group *g, uint64_t key, uint64_t count, float (*own)[RANKS]) {
    for (uint32_t i = 0; i < g->n; i++) {
        pst_rng_normal(key + i, 0, 1e3f, (float *)g->mem[i], count);
        for (uint64_t e = 0; own && e < count; e++) own[e][i] = ((float *)g->mem[i])[e];
    }
}

static void additions_are_in_the_documented_order(void **state) {
    (void)state;
    static const char *const name[] = {"tree", "doubling", "direct", "ring", "shared"};
    for (uint32_t n = 2; n <= RANKS; n++)
        for (int a = 0; a < 5; a++) {
            job j;
            uint64_t count = n == 5 ? 70001 : 1000 + n;
            collect what = {.kind = PST_COLL_ALL_REDUCE,
                            .n = n,
                            .algorithm = name[a],
                            .dtype = PST_F32,
                            .bytes = count * 4};
            what.offset[n] = what.bytes;
            hub_open(&j, n, 0);
            group_open(&j, UINT32_MAX, 0);
            if (a == 4) group_share(&j.group[0]);
            group_fill(&j.group[0], &what);
            float(*own)[RANKS] = calloc(count, sizeof *own);
            assert_non_null(own);
            fill_normal(&j.group[0], n, count, own);
            assert_int_equal(drive(&j, n), PST_OK);
            uint64_t part = count * 4 / 64 / n * 16;
            for (uint64_t e = 0; e < count; e++) {
                uint32_t owner = e / part < n ? (uint32_t)(e / part) : n - 1;
                float sum = expected(name[a], own[e], n, owner);
                for (uint32_t i = 0; i < n; i++)
                    if (memcmp(&sum, (float *)j.group[0].mem[i] + e, 4))
                        fail_msg("%s of %u: element %d", name[a], n, (int)e);
            }
            free(own);
            job_close(&j);
        }
}

static void the_same_bits_everywhere_and_again(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 24; k++) {
        job j;
        uint32_t n = 2 + k % 8;
        uint64_t count = k % 5 ? 333 + k : 200003, bytes = count * 4;
        collect what = {.kind = PST_COLL_ALL_REDUCE,
                        .n = n,
                        .algorithm = collect_algorithm[k % COLLECT_ALGORITHMS],
                        .dtype = PST_F32,
                        .bytes = bytes};
        what.offset[n] = bytes;
        uint8_t *before = malloc(bytes);
        assert_non_null(before);
        hub_open(&j, n, k % 2 ? 5 : 0);
        int shares = !strcmp(what.algorithm ? what.algorithm : "", "shared");
        for (uint32_t r = 0; r < n; r++) j.host[r] = shares ? 0 : r % 3;
        group_open(&j, UINT32_MAX, 0);
        if (shares) group_share(&j.group[0]);
        for (uint64_t again = 0; again < 3; again++) {
            group_fill(&j.group[0], &what);
            fill_normal(&j.group[0], k, count, NULL);
            assert_int_equal(drive(&j, again * 7), PST_OK);
            if (again) assert_memory_equal(before, j.group[0].mem[0], bytes);
            memcpy(before, j.group[0].mem[0], bytes);
            for (uint32_t i = 1; i < n; i++) assert_memory_equal(before, j.group[0].mem[i], bytes);
        }
        free(before);
        job_close(&j);
    }
}

/* --- the choice ------------------------------------------------------------------------------- */

static const char *chosen(pst_coll *c, pst_coll_kind kind, uint64_t bytes) {
    pst_coll_candidate candidate[PST_COLL_CANDIDATES];
    uint32_t n = pst_coll_candidates(c, kind, bytes, candidate);
    assert_in_range(n, 1, PST_COLL_CANDIDATES);
    assert_null(candidate[0].reject);
    for (uint32_t i = 1; i < n; i++)
        assert_true(candidate[i].reject || candidate[i].us >= candidate[0].us);
    return candidate[0].name;
}

static void the_choice_goes_by_size_group_and_hosts(void **state) {
    (void)state;
    job j;
    hub_open(&j, 8, 0);
    group_open(&j, UINT32_MAX, 0);
    for (uint32_t r = 0; r < 8; r++) j.host[r] = r / 4;
    group_open(&j, UINT32_MAX, 0);
    group_open(&j, 0x11, 0); /* one of each host */
    pst_coll *flat = j.group[0].coll[0], *hosts = j.group[1].coll[0], *two = j.group[2].coll[0];
    assert_string_equal(chosen(flat, PST_COLL_ALL_REDUCE, 8), "doubling");
    assert_string_not_equal(chosen(flat, PST_COLL_ALL_REDUCE, 64 << 20), "doubling");
    assert_string_not_equal(chosen(flat, PST_COLL_ALL_REDUCE, 64 << 20), "host");
    assert_string_equal(chosen(hosts, PST_COLL_ALL_REDUCE, 1 << 16), "host");
    assert_string_not_equal(chosen(two, PST_COLL_ALL_REDUCE, 1 << 20), "host");
    assert_string_not_equal(chosen(flat, PST_COLL_ALL_REDUCE, 1 << 20), "shared");
    group_share(&j.group[0]);
    assert_string_equal(chosen(flat, PST_COLL_ALL_REDUCE, 1 << 20), "shared");
    group_share(&j.group[1]); /* on several hosts: goes on without */
    assert_string_not_equal(chosen(hosts, PST_COLL_ALL_REDUCE, 1 << 20), "shared");
    assert_int_equal(pst_coll_force(flat, "rinng"), PST_EINPUT);
    job_close(&j);
}

static void wrong_groups_are_refused(void **state) {
    (void)state;
    job j;
    pst_coll *c = NULL;
    uint32_t others[] = {1, 2}, far[] = {0, 7}, me = 0;
    uint64_t part[RANKS] = {4, 8, 3};
    hub_open(&j, 3, 0);
    assert_int_equal(pst_coll_open(j.end[0], others, 2, PST_CHANNEL_COLLECTIVE, &c), PST_EINTERNAL);
    assert_int_equal(pst_coll_open(j.end[0], far, 2, PST_CHANNEL_COLLECTIVE, &c), PST_EINTERNAL);
    assert_int_equal(pst_coll_open(j.end[0], &me, 1, 7, &c), PST_EINTERNAL);
    assert_null(c);
    assert_int_equal(pst_coll_open(j.end[0], NULL, 0, PST_CHANNEL_COLLECTIVE, &c), PST_OK);
    assert_int_equal(pst_coll_start_parts(c, PST_COLL_REDUCE_SCATTER, part, part, PST_F32),
                     PST_EINTERNAL);
    assert_int_equal(pst_coll_start_parts(c, PST_COLL_ALL_REDUCE, part, part, PST_F32),
                     PST_EINTERNAL);
    pst_coll_close(c);
    job_close(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones),
        cmocka_unit_test(large_ones),
        cmocka_unit_test(additions_are_in_the_documented_order),
        cmocka_unit_test(the_same_bits_everywhere_and_again),
        cmocka_unit_test(the_choice_goes_by_size_group_and_hosts),
        cmocka_unit_test(wrong_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
