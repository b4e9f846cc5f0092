/* Elastic jobs (comm/world/elastic.h): who are the ranks after losses, which state is complete, and
 * worlds that end with their epoch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "comm/world/elastic.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pst_elastic_page *page;
static int page_fd;

/* With four processes; three living ones have three ranks, two have two; fewer: the job ends. */
static int open_page(void **state) {
    static const uint32_t ranks_of[] = {0, 0, 2, 3, 4};
    (void)state;
    const pst_elastic_start start = {.slots = 6, .processes = 4, .ranks = 4, .ranks_of = ranks_of};
    return pst_elastic_open(&start, &page_fd, &page) != PST_OK;
}

static int close_page(void **state) {
    (void)state;
    pst_elastic_close(page, page_fd);
    return 0;
}

static int announce(const uint8_t alive[4]) {
    uint8_t slots[6] = {0};
    memcpy(slots, alive, 4);
    return pst_elastic_announce(page, slots, 7);
}

static void write_state(uint32_t process, uint32_t epoch, uint64_t number) {
    pst_elastic_state *s = &page->state[process][number % PST_ELASTIC_FILES];
    s->epoch = epoch;
    s->number = number;
}

static void test_members(void **state) {
    (void)state;
    assert_true(announce((uint8_t[]){1, 0, 1, 1}));
    const pst_elastic_members *m = &page->member[1];
    assert_int_equal(m->n_rank, 3);
    assert_int_equal(m->process[1], 2);
    assert_int_equal(m->n_lost, 1);
    assert_int_equal(m->lost[0], 1);
    assert_int_equal(m->lost_ns, 7);
    assert_int_equal(pst_elastic_rank(page, 1, 3), 2);
    assert_int_equal(pst_elastic_rank(page, 1, 1), UINT32_MAX);
    write_state(0, 1, 1); /* before the first step */
    assert_true(announce((uint8_t[]){1, 0, 1, 0}));
    m = &page->member[2];
    assert_int_equal(m->n_lost, 2); /* both, since no step was completed between the losses */
    assert_int_equal(m->lost[0], 1);
    assert_int_equal(m->lost[1], 3);
    assert_int_equal(page->epoch, 2);
    assert_false(announce((uint8_t[]){1, 0, 0, 0}));
    assert_int_equal(page->epoch, 2);
}

static void test_lost_after_a_step(void **state) {
    (void)state;
    assert_true(announce((uint8_t[]){1, 0, 1, 1}));
    write_state(0, 1, 1);
    write_state(0, 1, 2); /* a step was completed */
    assert_true(announce((uint8_t[]){1, 0, 1, 0}));
    assert_int_equal(page->member[2].n_lost, 1);
    assert_int_equal(page->member[2].lost[0], 2); /* its rank, not its process */
}

/* With a layout for two or four ranks only, one of three processes waits. */
static void test_process_without_rank(void **state) {
    (void)state;
    page->ranks_of[3] = 2;
    assert_true(announce((uint8_t[]){0, 1, 1, 1}));
    assert_int_equal(page->member[1].n_rank, 2);
    assert_int_equal(page->member[1].alive, 3);
    assert_int_equal(pst_elastic_rank(page, 1, 3), UINT32_MAX);
}

static void test_newest(void **state) {
    (void)state;
    uint32_t epoch = 9;
    uint64_t number;
    assert_false(pst_elastic_newest(page, &epoch, &number));
    for (uint32_t i = 0; i < 4; i++) write_state(i, 0, 1);
    for (uint32_t i = 0; i < 3; i++) write_state(i, 0, 2); /* the last rank died before */
    assert_true(pst_elastic_newest(page, &epoch, &number));
    assert_int_equal(epoch, 0);
    assert_int_equal(number, 1);
    page->state[1][1].number = 0; /* torn */
    assert_false(pst_elastic_newest(page, &epoch, &number));
    write_state(1, 0, 1);
    write_state(3, 0, 2);
    assert_true(pst_elastic_newest(page, &epoch, &number));
    assert_int_equal(number, 2);
}

/* All ranks leave for a change; two more processes get ranks, and then a spare takes a place. */
static void test_change(void **state) {
    (void)state;
    assert_false(pst_elastic_all_departed(page));
    page->member[0].departed_ns = 11;
    page->member[0].departed = 4;
    assert_true(pst_elastic_all_departed(page));
    page->ranks_of[5] = page->known = page->target = 5;
    assert_true(pst_elastic_change(page, (uint8_t[]){1, 1, 1, 1, 1, 1}));
    const pst_elastic_members *m = &page->member[1];
    assert_int_equal(m->n_rank, 5);
    assert_int_equal(m->alive, 6);
    assert_int_equal(m->lost_ns, 11);
    assert_int_equal(m->n_lost, 0);
    assert_true(m->is_change);
    assert_int_equal(pst_elastic_rank(page, 1, 5), UINT32_MAX);
    write_state(0, 1, 1);
    write_state(0, 1, 2);
    assert_false(pst_elastic_has_state(page));
    assert_true(pst_elastic_announce(page, (uint8_t[]){1, 0, 1, 1, 1, 1}, 7));
    assert_int_equal(page->member[2].n_rank, 5);
    assert_int_equal(pst_elastic_rank(page, 2, 5), 4);
    for (uint32_t r = 0; r < 5; r++) write_state(page->member[2].process[r], 2, 3);
    assert_true(pst_elastic_has_state(page));
}

/* A state of the next epoch with the number of an incomplete one of the epoch before. */
static void test_newest_of_epochs(void **state) {
    (void)state;
    uint32_t epoch;
    uint64_t number;
    for (uint32_t i = 0; i < 4; i++) write_state(i, 0, 4);
    for (uint32_t i = 0; i < 3; i++) write_state(i, 0, 5);
    assert_true(announce((uint8_t[]){1, 1, 1, 0}));
    write_state(0, 1, 5);
    write_state(1, 1, 5);
    assert_true(pst_elastic_newest(page, &epoch, &number));
    assert_int_equal(number, 4);
    write_state(2, 1, 5);
    assert_true(pst_elastic_newest(page, &epoch, &number));
    assert_int_equal(epoch, 1);
    assert_int_equal(number, 5);
}

typedef struct {
    uint32_t process;
    pst_status joined, again;
    uint64_t held;
} member;

/* Exchanges values twice under one key, and then waits in a fence until the epoch ends. */
static void *join(void *arg) {
    member *m = arg;
    pst_world *w;
    char text[16];
    if ((m->joined = pst_elastic_world(page, 0, m->process, &w)) != PST_OK) return NULL;
    m->held = w->held;
    for (int k = 0; k < 2; k++) {
        snprintf(text, sizeof text, "%u of %d", w->rank, k);
        m->joined |= w->ops->put(w, "key", text, sizeof text);
        m->joined |= w->ops->fence(w);
        for (uint32_t r = 0; r < w->size; r++) {
            char *value = NULL;
            size_t bytes = 0;
            m->joined |= w->ops->get(w, r, "key", (void **)&value, &bytes);
            snprintf(text, sizeof text, "%u of %d", r, k);
            if (bytes != sizeof text || strcmp(value, text)) m->joined |= PST_EINTERNAL;
            free(value);
        }
        m->joined |= w->ops->fence(w);
    }
    m->again = m->process ? w->ops->fence(w) : PST_OK; /* the first has died */
    w->ops->close(w);
    return NULL;
}

static void test_world(void **state) {
    (void)state;
    member m[4];
    pthread_t thread[4];
    assert_int_equal(posix_fallocate(page->state_fd[1][0], 0, 1 << 20), 0);
    assert_int_equal(posix_fallocate(page->state_fd[3][1], 0, 2 << 20), 0);
    assert_int_equal(posix_fallocate(page->state_fd[5][0], 0, 4 << 20), 0); /* has no rank */
    for (uint32_t i = 0; i < 4; i++) {
        m[i] = (member){.process = i, .joined = PST_EINTERNAL};
        assert_int_equal(pthread_create(&thread[i], NULL, join, &m[i]), 0);
    }
    pthread_join(thread[0], NULL);
    assert_true(announce((uint8_t[]){0, 1, 1, 1}));
    for (uint32_t i = 1; i < 4; i++) pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(m[i].joined, PST_OK);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(m[i].held, 3 << 20);
    for (uint32_t i = 1; i < 4; i++) assert_int_equal(m[i].again, PST_EPEER);
}

static void test_too_many(void **state) {
    (void)state;
    static const uint32_t ranks_of[PST_ELASTIC_RANKS + 2] = {0};
    pst_elastic_page *none;
    int fd;
    const pst_elastic_start start = {PST_ELASTIC_RANKS + 1, 4, 4, ranks_of};
    assert_int_equal(pst_elastic_open(&start, &fd, &none), PST_EINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_lost_after_a_step, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_process_without_rank, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_change, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_newest, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_newest_of_epochs, open_page, close_page),
        cmocka_unit_test_setup_teardown(test_world, open_page, close_page),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
