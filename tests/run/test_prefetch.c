/* Batches read ahead: which samples are read and when, on a data set whose reads wait for the test;
 * failures; and what a read that takes too long costs. */
#include "base/clock.h"
#include "run/prefetch.h"
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

enum { WANTED = 3, NONE = 0xffffff };

/* A sample has its number in `tokens`, and the one after in `targets`. */
typedef struct {
    pst_data base;
    sem_t may_read, was_read;
    int gated;        /* 1: each read waits for may_read */
    uint64_t bad, ms; /* this sample cannot be read; a read takes so long */
} slow_data;

static uint32_t fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    (void)data;
    out[0] = (pst_data_field){"tokens", 2};
    out[1] = (pst_data_field){"targets", 1};
    return 2;
}

static pst_status sample(pst_data *data, pst_split split, uint64_t index, int32_t *const *out) {
    slow_data *d = (slow_data *)data;
    const struct timespec time = {0, (long)d->ms * 1000000};
    if (d->gated) sem_wait(&d->may_read);
    nanosleep(&time, NULL);
    if (split != PST_SPLIT_TRAIN) return pst_fail(PST_EINTERNAL, "another split");
    if (index == d->bad) return pst_fail(PST_EINPUT, "sample %d: the disk is gone", (int)index);
    out[0][0] = out[0][1] = (int32_t)index;
    out[1][0] = (int32_t)index + 1;
    sem_post(&d->was_read);
    return PST_OK;
}

static const pst_data_row row = {.name = "slow", .sample = sample, .fields = fields};
static slow_data *open_data(int gated) {
    slow_data *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->base.row = &row;
    d->gated = gated;
    d->bad = NONE;
    sem_init(&d->may_read, 0, 0);
    sem_init(&d->was_read, 0, 0);
    return d;
}

static void close_data(slow_data *d) {
    sem_destroy(&d->may_read);
    sem_destroy(&d->was_read);
    free(d);
}

static pst_prefetch *open_prefetch(slow_data *d, uint64_t most) {
    pst_prefetch *p = NULL;
    if (pst_prefetch_open(&d->base, most, &p) != PST_OK) fail_msg("%s", pst_error());
    return p;
}

static pst_prefetch_batch at(uint64_t first) { return (pst_prefetch_batch){first, WANTED}; }

static void expect(pst_prefetch *p, pst_prefetch_batch batch) {
    if (pst_prefetch_take(p, batch) != PST_OK) fail_msg("%s", pst_error());
    for (uint64_t i = 0; i < batch.n; i++) {
        int32_t *out[PST_DATA_FIELDS], want = (int32_t)(batch.first + i);
        pst_prefetch_sample(p, i, out);
        assert_true(out[0][0] == want && out[0][1] == want && out[1][0] == want + 1);
    }
}

static void expect_batch(pst_prefetch *p, uint64_t first) { expect(p, at(first)); }

/* The batches asked for ahead, any other one, smaller ones, and none. */
static void batches_in_any_order(void **state) {
    slow_data *d = open_data(0);
    pst_prefetch *p = open_prefetch(d, WANTED);
    (void)state;
    expect_batch(p, 100);
    expect_batch(p, 100);
    for (uint64_t first = 0; first < 500; first += 10) {
        expect_batch(p, first);
        pst_prefetch_start(p, at(first + 10));
    }
    expect_batch(p, 7);
    expect(p, (pst_prefetch_batch){7, 1});
    expect_batch(p, 7); /* the same first sample, another size */
    pst_prefetch_start(p, at(8));
    pst_prefetch_close(p);
    p = open_prefetch(d, 0); /* this process needs no samples */
    assert_int_equal(pst_prefetch_take(p, (pst_prefetch_batch){0, 0}), PST_OK);
    pst_prefetch_start(p, (pst_prefetch_batch){10, 0});
    pst_prefetch_close(p);
    close_data(d);
}

/* All samples of the next batch are read while the caller does other things. */
static void reads_while_the_step_runs(void **state) {
    slow_data *d = open_data(1);
    pst_prefetch *p = open_prefetch(d, WANTED);
    (void)state;
    pst_prefetch_start(p, at(10)); /* does not wait for reads, which may not begin yet */
    for (int i = 0; i < WANTED; i++) sem_post(&d->may_read);
    for (int i = 0; i < WANTED; i++) sem_wait(&d->was_read);
    expect_batch(p, 10); /* reads nothing, which would wait forever */
    pst_prefetch_close(p);
    close_data(d);
}

/* A failure belongs to the batch that cannot be read, and to every try. */
static void failure_of_its_batch(void **state) {
    slow_data *d = open_data(0);
    d->bad = 12;
    pst_prefetch *p = open_prefetch(d, WANTED);
    (void)state;
    expect_batch(p, 0);
    pst_prefetch_start(p, at(10));
    pst_prefetch_settle(p);
    assert_string_equal(pst_error(), "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pst_prefetch_take(p, at(10)), PST_EINPUT);
        assert_string_equal(pst_error(), "sample 12: the disk is gone");
        pst_error_clear();
    }
    expect_batch(p, 20);
    pst_prefetch_close(p);
    close_data(d);
}

/* What cannot be hidden is waited for. */
static void waits_for_the_rest(void **state) {
    slow_data *d = open_data(0);
    d->ms = 20;
    pst_prefetch *p = open_prefetch(d, WANTED);
    (void)state;
    uint64_t began = pst_monotonic_ns();
    pst_prefetch_start(p, at(10));
    expect_batch(p, 10);
    assert_true(pst_monotonic_ns() - began >= WANTED * UINT64_C(20000000));
    pst_prefetch_close(p);
    close_data(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_in_any_order), cmocka_unit_test(reads_while_the_step_runs),
        cmocka_unit_test(failure_of_its_batch), cmocka_unit_test(waits_for_the_rest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
