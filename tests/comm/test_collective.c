/* test: label=quick */
/* Collectives of all ranks over self with one thread driving them: random sizes and rank counts up
 * to 33 against plain loops, and what a broken transport does to them. Groups and algorithms:
 * test_collective_sweep.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "comm/collective/collective.h"
#include "comm/fault.h"
#include "comm/transport/transport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 77, MAX_RANK = 33 };

typedef struct {
    uint32_t n;
    pst_self_hub *hub;
    pst_coll *coll[MAX_RANK];
    uint8_t *mem[MAX_RANK];
} job;

static void job_open(job *j, uint32_t n, uint64_t bytes) {
    j->n = n;
    assert_int_equal(pst_self_hub_open(n, NULL, &j->hub), PST_OK);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(pst_coll_open(pst_self_hub_endpoint(j->hub, i), NULL, 0,
                                       PST_CHANNEL_COLLECTIVE, &j->coll[i]),
                         PST_OK);
        j->mem[i] = calloc(1, bytes ? bytes : 1);
        assert_non_null(j->mem[i]);
    }
}

static void job_close(job *j) {
    for (uint32_t i = 0; i < j->n; i++) {
        pst_coll_close(j->coll[i]);
        free(j->mem[i]);
    }
    pst_self_hub_close(j->hub);
}

/* Drives all ranks; the rank that starts the rounds changes, so that no order of arrival is
 * favoured. */
static pst_status drive(job *j, uint64_t turn) {
    for (uint32_t round = 0; round < 100000; round++) {
        uint32_t busy = 0;
        for (uint32_t i = 0; i < j->n; i++) {
            pst_status status =
                pst_coll_test(j->coll[(i * (turn % 2 ? 1 : j->n - 1) + turn) % j->n]);
            if (status != PST_OK && status != PST_BUSY) return status;
            busy += status == PST_BUSY;
        }
        if (!busy) return PST_OK;
    }
    return PST_BUSY;
}

static void start(job *j, pst_coll_kind kind, uint64_t bytes, pst_dtype dtype, uint32_t root) {
    for (uint32_t i = 0; i < j->n; i++)
        assert_int_equal(pst_coll_start(j->coll[i], kind, j->mem[i], bytes, dtype, root), PST_OK);
}

static uint32_t random_word(uint64_t key, uint64_t at) {
    uint32_t word[4];
    pst_rng_words(key, 0, at, word);
    return word[0];
}

static uint64_t random_bytes(uint64_t key, uint64_t at) {
    uint32_t word = random_word(key, at);
    if (word % 5 == 0) return word % 3;
    return word % 5 == 1 ? word % 5000000 : word % 3000;
}

static void broadcasts(void **state) {
    (void)state;
    printf("seed %d\n", SEED);
    uint64_t key = pst_rng_key(SEED, "broadcast");
    for (uint64_t k = 0; k < 40; k++) {
        job j;
        uint32_t n = 1 + random_word(key, 4 * k) % MAX_RANK, root = random_word(key, 4 * k + 1) % n;
        uint64_t bytes = random_bytes(key, 4 * k + 2) % 300000;
        job_open(&j, n, bytes);
        for (uint64_t b = 0; b < bytes; b++) j.mem[root][b] = (uint8_t)(b * 31 + k);
        start(&j, PST_COLL_BROADCAST, bytes, PST_F32, root);
        assert_int_equal(drive(&j, k), PST_OK);
        for (uint32_t i = 0; i < n; i++)
            if (bytes) assert_memory_equal(j.mem[i], j.mem[root], bytes);
        job_close(&j);
    }
}

static void all_gathers(void **state) {
    (void)state;
    uint64_t key = pst_rng_key(SEED, "gather");
    for (uint64_t k = 0; k < 40; k++) {
        job j;
        uint32_t n = 1 + random_word(key, 4 * k) % MAX_RANK;
        uint64_t bytes = random_bytes(key, 4 * k + 2) % 10000;
        job_open(&j, n, n * bytes);
        for (uint32_t i = 0; i < n; i++) memset(j.mem[i] + i * bytes, (int)i + 1, bytes);
        start(&j, PST_COLL_ALL_GATHER, bytes, PST_F32, 0);
        assert_int_equal(drive(&j, k), PST_OK);
        for (uint32_t i = 0; i < n; i++)
            for (uint64_t b = 0; b < n * bytes; b++) assert_int_equal(j.mem[i][b], b / bytes + 1);
        job_close(&j);
    }
}

static void doubles_barriers_and_sequences(void **state) {
    (void)state;
    job j;
    job_open(&j, 7, 7 * 64);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 7; i++)
            for (uint32_t e = 0; e < 8; e++) ((double *)j.mem[i])[e] = (double)(i + e + round);
        start(&j, PST_COLL_ALL_REDUCE, 64, PST_F64, 0);
        assert_int_equal(drive(&j, round), PST_OK);
        for (uint32_t i = 0; i < 7; i++)
            for (uint32_t e = 0; e < 8; e++)
                assert_true(((double *)j.mem[i])[e] == (double)(21 + 7 * (e + round)));
        start(&j, PST_COLL_BARRIER, 0, PST_F32, 0);
        /* Nobody passes a barrier that one has not reached. */
        for (uint32_t again = 0; again < 50; again++)
            for (uint32_t i = 0; i < 7; i++)
                if (i != round % 7) assert_int_equal(pst_coll_test(j.coll[i]), PST_BUSY);
        assert_int_equal(drive(&j, round), PST_OK);
    }
    job_close(&j);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    job j;
    job_open(&j, 2, 64);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_ALL_REDUCE, j.mem[0], 8, PST_I32, 0),
                     PST_EINTERNAL);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_ALL_REDUCE, j.mem[0], 7, PST_F32, 0),
                     PST_EINTERNAL);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_BROADCAST, j.mem[0], 8, PST_F32, 2),
                     PST_EINTERNAL);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_BARRIER, NULL, 0, PST_F32, 0), PST_OK);
    assert_int_equal(pst_coll_test(j.coll[0]), PST_BUSY);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_BARRIER, NULL, 0, PST_F32, 0),
                     PST_EINTERNAL);
    pst_transport *left = pst_self_hub_endpoint(j.hub, 1);
    left->ops->abort(left);
    assert_int_equal(pst_coll_test(j.coll[0]), PST_EPEER);
    assert_int_equal(pst_coll_test(j.coll[0]), PST_EPEER);
    job_close(&j);
    job_open(&j, 2, 64);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_BARRIER, NULL, 0, PST_F32, 0), PST_OK);
    assert_int_equal(pst_coll_test(j.coll[0]), PST_BUSY);
    pst_coll_break(j.coll[0], PST_EPEER); /* a heartbeat says so */
    assert_int_equal(pst_coll_test(j.coll[0]), PST_EPEER);
    assert_int_equal(pst_coll_start(j.coll[0], PST_COLL_BARRIER, NULL, 0, PST_F32, 0), PST_EPEER);
    job_close(&j);
}

/* Delays change nothing; a dropped message keeps everybody waiting, a failed one is reported. */
static void faults(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        job j;
        job_open(&j, 5, 4000);
        pst_transport *bad = NULL;
        pst_fault_spec spec = {
            .fail_post = kind == 0, .drop_post = kind == 1, .delay_polls = kind == 2 ? 13 : 0};
        assert_int_equal(pst_transport_fault_open(pst_self_hub_endpoint(j.hub, 3), &spec, &bad),
                         PST_OK);
        pst_coll_close(j.coll[3]);
        assert_int_equal(pst_coll_open(bad, NULL, 0, PST_CHANNEL_COLLECTIVE, &j.coll[3]), PST_OK);
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t e = 0; e < 1000; e++) ((float *)j.mem[i])[e] = (float)(i + e);
        start(&j, PST_COLL_ALL_REDUCE, 4000, PST_F32, 0);
        pst_status expected[] = {PST_EPEER, PST_BUSY, PST_OK};
        assert_int_equal(drive(&j, 0), expected[kind]);
        if (kind == 2)
            for (uint32_t e = 0; e < 1000; e++)
                assert_true(((float *)j.mem[4])[e] == (float)(10 + 5 * e));
        bad->ops->close(bad);
        job_close(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasts),
        cmocka_unit_test(all_gathers),
        cmocka_unit_test(doubles_barriers_and_sequences),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
