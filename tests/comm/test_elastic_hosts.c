/* Elastic jobs on several hosts (comm/world/elastic_hosts.h), with two pages of this process in
 * place of two hosts: one reads the other's memory and states, strangers do not, and a wait ends
 * with the epoch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "comm/world/elastic_hosts.h"
#include "comm/world/tcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 2, EACH = 2, ALL = HOSTS * EACH };
static pst_elastic_page *page[HOSTS];
static int page_fd[HOSTS];
static char port[HOSTS][8];

static void open_host(uint32_t own) {
    static const uint32_t ranks_of[] = {0, 1, 2, 3, 4};
    const pst_elastic_start start = {ALL, ALL, ALL, ranks_of};
    assert_int_equal(pst_elastic_open(&start, &page_fd[own], &page[own]), PST_OK);
    pst_elastic_hosts *h = &page[own]->hosts;
    h->n = HOSTS;
    h->own = own;
    strcpy(h->secret, "0123456789abcdef");
}

static int open_hosts(void **state) {
    (void)state;
    open_host(0);
    open_host(1);
    /* served once per process: a launcher has one job */
    if (!port[1][0])
        assert_int_equal(pst_elastic_memory_serve(page[1], page_fd[1], "127.0.0.1", port[1]),
                         PST_OK);
    for (uint32_t own = 0; own < HOSTS; own++)
        for (uint32_t i = 0; i < HOSTS; i++) {
            pst_elastic_host *h = &page[own]->hosts.host[i];
            h->first = i * EACH;
            h->n = EACH;
            snprintf(h->name, sizeof h->name, "host%u", i);
            strcpy(h->address, "127.0.0.1");
            memcpy(h->memory_port, port[i], sizeof h->memory_port);
        }
    return 0;
}

static void write_state(uint32_t process, uint32_t epoch, uint64_t number) {
    pst_elastic_state *s = &page[process / EACH]->state[process][number % PST_ELASTIC_FILES];
    s->epoch = epoch;
    s->file = (uint32_t)(number % PST_ELASTIC_FILES);
    s->note[0] = (uint8_t)(10 * process + number);
    s->number = number;
}

static void test_memory(void **state) {
    (void)state;
    pst_elastic_memory m = {.page = page[0]};
    const int fd = page[1]->state_fd[3][1];
    char got[6] = "";
    assert_int_equal(pwrite(fd, "123456", 6, 100), 6);
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){3, 1, 101, 4}, got), PST_OK);
    assert_string_equal(got, "2345");
    assert_int_equal(m.bytes, 4);
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){3, 1, 100, 1}, got), PST_OK);
    assert_int_equal(got[0], '1');
    /* beyond the end, and of a process that there is not: the connection ends */
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){3, 1, 104, 4}, got), PST_EPEER);
    pst_elastic_memory_close(&m);
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){ALL, 0, 0, 1}, got), PST_EPEER);
    pst_elastic_memory_close(&m);
    strcpy(page[0]->hosts.secret, "another-secret-0");
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){3, 1, 100, 1}, got), PST_EPEER);
    pst_elastic_memory_close(&m);
    strcpy(page[0]->hosts.secret, page[1]->hosts.secret);
}

static void find(pst_elastic_copies copies, pst_elastic_found *found) {
    pst_elastic_memory m = {.page = page[0]};
    page[0]->hosts.copies = copies;
    *found = (pst_elastic_found){0};
    assert_int_equal(pst_elastic_find(&m, found), PST_OK);
    pst_elastic_memory_close(&m);
}

/* Two stages of two replicas: ranks 0 and 1 are of the first stage. */
static void test_find(void **state) {
    (void)state;
    static const pst_elastic_copies none = {1, 1}, two = {2, 1};
    pst_elastic_found f;
    find(none, &f);
    assert_int_equal(f.source, 0);
    assert_int_equal(f.has_last, 0);
    for (uint32_t i = 0; i < ALL; i++) write_state(i, 0, 5);
    for (uint32_t i = 0; i < ALL; i += 2) write_state(i, 0, 6);
    strcpy(page[1]->folder, "runs/x");
    page[1]->has_folder = 1;
    find(none, &f);
    assert_int_equal(f.source, 5);
    assert_int_equal(f.file[3], 1);
    assert_int_equal(f.note[0], 5);
    assert_int_equal(f.last_note[0], 6);
    assert_string_equal(f.folder, "runs/x");
    find(two, &f); /* one replica has a newer one, which is enough */
    assert_int_equal(f.source, 6);
    assert_int_equal(f.file[0], 0);
    assert_int_equal(f.file[1], UINT32_MAX);
    page[0]->hosts.host[1].lost_in = 1;
    find(two, &f); /* the second stage is lost */
    assert_int_equal(f.source, 0);
    assert_int_equal(f.has_last, 1);
    page[0]->hosts.host[1].lost_in = 0;
}

/* Hosts with four and two processes: replicas on both, as long as there are two. */
static void test_spread(void **state) {
    (void)state;
    static const uint8_t all[] = {1, 1, 1, 1, 1, 1};
    static const uint32_t ranks_of[] = {0, 0, 2, 2, 4, 4, 6}, expected[] = {0, 4, 1, 5, 2, 3},
                          without[] = {0, 5, 1, 2};
    pst_elastic_page *p;
    int fd;
    const pst_elastic_start start = {6, 6, 6, ranks_of};
    assert_int_equal(pst_elastic_open(&start, &fd, &p), PST_OK);
    p->hosts.n = 2;
    p->hosts.copies = (pst_elastic_copies){2, 1};
    p->hosts.host[0].n = 4;
    p->hosts.host[1].first = 4;
    p->hosts.host[1].n = 2;
    pst_elastic_spread(p, all, &p->member[0]);
    assert_memory_equal(p->member[0].process, expected, sizeof expected);
    assert_true(pst_elastic_announce(p, (uint8_t[]){1, 1, 1, 1, 0, 1}, 7));
    assert_int_equal(p->member[1].n_rank, 4);
    assert_memory_equal(p->member[1].process, without, sizeof without);
    assert_int_equal(p->member[1].lost[0], 1);
    /* two tensor ranks of a replica stay on one host */
    p->hosts.copies = (pst_elastic_copies){2, 2};
    pst_elastic_members m = {.n_rank = 4};
    pst_elastic_spread(p, (uint8_t[]){0, 1, 1, 1, 1, 1}, &m);
    assert_memory_equal(m.process, ((uint32_t[]){1, 2, 4, 5}), 4 * sizeof *m.process);
    pst_elastic_close(p, fd);
}

static int is_over(void *arg) { return pst_monotonic_ns() > *(const uint64_t *)arg; }

/* Nobody listens there yet: a rank would try for 30 s. */
static void test_over(void **state) {
    (void)state;
    uint64_t at = pst_monotonic_ns() + UINT64_C(100000000);
    pst_elastic_memory m = {.page = page[0]};
    char got;
    strcpy(page[0]->hosts.host[1].memory_port, "1");
    pst_tcp_give_up_when(is_over, &at);
    assert_int_equal(pst_elastic_fetch(&m, 1, &(pst_elastic_range){3, 1, 0, 1}, &got), PST_EPEER);
    pst_tcp_give_up_when(NULL, NULL);
    assert_true(pst_monotonic_ns() < at + UINT64_C(5000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_over),
    };
    return cmocka_run_group_tests(tests, open_hosts, NULL);
}
