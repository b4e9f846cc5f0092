/* Cluster files: devices in the order of ranks; faults named with their place. */
#include "pipeline/cluster.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void devices_stand_in_the_order_of_the_file(void **unused) {
    (void)unused;
    static const char text[] = "nodes:\n"
                               "  - {name: fast, count: 2, devices: [{count: 2, memory: 1GiB}, {speed: 0.25}]}\n"
                               "  - devices:\n"
                               "      - {speed: 2.5, memory: 512M}\n";
    pst_cluster *c;
    assert_int_equal(pst_cluster_parse(text, strlen(text), "c.yaml", &c), PST_OK);
    assert_int_equal(c->n_node, 3);
    assert_int_equal(c->n_device, 7);
    static const pst_cluster_device want[] = {{1, 1 << 30, 0}, {1, 1 << 30, 0}, {0.25, 0, 0},    {1, 1 << 30, 1},
                                              {1, 1 << 30, 1}, {0.25, 0, 1},    {2.5, 1 << 29, 2}};
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(c->device[i].speed == want[i].speed);
        assert_true(c->device[i].memory == want[i].memory);
        assert_int_equal(c->device[i].node, want[i].node);
    }
    pst_cluster_close(c);
}

static void faults_are_named_with_their_place(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *place, *what;
    } cases[] = {
        {"", "c.yaml", "empty"},
        {"- a\n", "c.yaml:1:1", "keys and values"},
        {"{}\n", "c.yaml:1:1", "missing key: nodes"},
        {"nodes: 3\n", "c.yaml:1:8", "a list of nodes"},
        {"nodes: []\n", "c.yaml:1:8", "1 to 65536 nodes"},
        {"nodes: [{name: a}]\n", "c.yaml:1:9", "missing key: devices"},
        {"nodes: [{devices: {count: 2}}]\n", "c.yaml:1:19", "a list of devices"},
        {"nodes: [{devices: [{sped: 2}]}]\n", "c.yaml:1:21", "\"sped\" is no key of a cluster here; there are count"},
        {"nodes: [{devices: [{speed: 0}]}]\n", "c.yaml:1:28", "a number from 0.001 to 1000"},
        {"nodes: [{devices: [{memory: lots}]}]\n", "c.yaml:1:29", "bytes, such as 512M"},
        {"nodes: [{devices: [{count: -1}]}]\n", "c.yaml:1:28", "whole number from 1"},
        {"nodes: [{count: 60000, devices: [{count: 60000}]}]\n", "c.yaml:1:34", "more than 65536 devices"},
        {"nodes: [1, 2", "c.yaml:", "expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_cluster *c = NULL;
        assert_int_equal(pst_cluster_parse(cases[i].text, strlen(cases[i].text), "c.yaml", &c), PST_EINPUT);
        assert_null(c);
        if (strncmp(pst_error(), cases[i].place, strlen(cases[i].place)) || !strstr(pst_error(), cases[i].what))
            fail_msg("case %zu says: %s", i, pst_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_stand_in_the_order_of_the_file),
        cmocka_unit_test(faults_are_named_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
