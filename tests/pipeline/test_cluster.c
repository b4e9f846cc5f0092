/* Cluster files: devices in the order of ranks; faults named with their place. */
#include "pipeline/cluster/cluster.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void devices_stand_in_the_order_of_the_file(void **unused) {
    (void)unused;
    static const char text[] =
        "nodes:\n"
        "  - {name: fast, count: 2, devices: [{count: 2, memory: 1GiB}, {speed: 0.25}]}\n"
        "  - devices:\n"
        "      - {speed: 2.5, memory: 512M}\n";
    pst_cluster *c;
    assert_int_equal(pst_cluster_parse(text, strlen(text), "c.yaml", &c), PST_OK);
    assert_int_equal(c->n_node, 3);
    assert_int_equal(c->n_device, 7);
    static const pst_cluster_device want[] = {
        {1, 1 << 30, 0, 0, 1}, {1, 1 << 30, 0, 0, 1}, {0.25, 0, 0, 0, 0},     {1, 1 << 30, 1, 0, 1},
        {1, 1 << 30, 1, 0, 1}, {0.25, 0, 1, 0, 0},    {2.5, 1 << 29, 2, 0, 1}};
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(c->device[i].speed == want[i].speed);
        assert_true(c->device[i].memory == want[i].memory);
        assert_int_equal(c->device[i].node, want[i].node);
    }
    pst_cluster_link link;
    assert_string_equal(c->kind[0].name, "cpu");
    /* a file without links: messages take what they always took */
    assert_int_equal(pst_cluster_between(c, 0, 1, &link), PST_OK);
    assert_true(link.latency_ns == 30000 && link.bytes_per_s == 4e9);
    assert_int_equal(pst_cluster_between(c, 0, 6, &link), PST_OK); /* between nodes, too, */
    assert_true(link.latency_ns == 30000 && link.bytes_per_s == 4e9);
    assert_true(c->node[0].node_bytes_per_s == 3 * 4e9); /* and no device stands in another's way */
    pst_cluster_close(c);
}

static pst_cluster *parse(const char *text) {
    pst_cluster *c = NULL;
    if (pst_cluster_parse(text, strlen(text), "c.yaml", &c) != PST_OK)
        fail_msg("%s: %s", text, pst_error());
    return c;
}

/* The same cluster in both forms. */
static void kinds_and_links(void **unused) {
    (void)unused;
    static const char *const forms[] = {
        "links: {nvlink: 900GB/s}\n"
        "nodes:\n"
        "  - count: 2\n"
        "    devices: [{count: 8, kind: h100}]\n"
        "    links: {ib: {bandwidth: 400Gb/s, nics: 4}}\n"
        "  - devices: [{count: 4, kind: A100-80, memory: 64GiB, speed: 0.5}]\n"
        "    links: {device: {bandwidth: 300GB/s, latency: 2us}, nic: {bandwidth: 25GB/s, "
        "oversubscription: 2, "
        "latency: "
        "0.02ms}}\n",
        "2x8 h100 ib:4x400Gb/s nvlink:900GB/s + 4 a100-80 memory:64GiB speed:0.5 nvlink:600GB/s "
        "ib:200Gb/s/2\n"};
    for (int f = 0; f < 2; f++) {
        pst_cluster *c = parse(forms[f]);
        pst_cluster_link link;
        assert_int_equal(c->n_node, 3);
        assert_int_equal(c->n_device, 20);
        assert_string_equal(c->kind[c->device[0].kind].name, "H100");
        assert_true(c->device[15].memory == UINT64_C(85520809984) && !c->device[15].given &&
                    c->device[16].memory == UINT64_C(64) << 30 && c->device[16].given);
        /* what was given is a limit of the user, and all of it may be used */
        pst_cluster_reserve(c, 2);
        assert_true(c->device[15].memory ==
                        UINT64_C(85520809984) - ((UINT64_C(1600) + 2 * 688) << 20) &&
                    c->device[16].memory == UINT64_C(64) << 30);
        assert_true(c->device[16].speed == 0.5 && c->device[16].node == 2 &&
                    c->device[16].kind == 1);
        assert_true(c->node[1].node_bytes_per_s == 4 * 50e9 &&
                    c->node[2].node_bytes_per_s == 4 * 25e9 / 2);
        assert_int_equal(pst_cluster_between(c, 1, 7, &link), PST_OK);
        assert_true(link.bytes_per_s == 450e9 && link.latency_ns == 5000); /* one direction */
        assert_int_equal(pst_cluster_between(c, 16, 19, &link), PST_OK);
        assert_true(link.bytes_per_s == 300e9 && link.latency_ns == (f ? 5000 : 2000));
        assert_int_equal(pst_cluster_between(c, 0, 8, &link), PST_OK);
        assert_true(link.bytes_per_s == 50e9 && link.latency_ns == 10000);
        /* the slower of both ends */
        assert_int_equal(pst_cluster_between(c, 0, 19, &link), PST_OK);
        assert_true(link.bytes_per_s == 25e9 && link.latency_ns == (f ? 10000 : 20000));
        pst_cluster_close(c);
    }
    pst_cluster *c =
        parse("kinds: [{name: x1, bf16: 300e12, fp8: 600e12, bandwidth: 2TB/s, memory: 64GiB,\n"
              "         power: 500, reserved: 1GiB}]\n"
              "nodes: [{devices: [{count: 2, kind: X1}]}, {name: b, devices: [{kind: v100}]}]\n");
    pst_cluster_link link;
    assert_true(c->kind[0].flops[PST_BF16] == 300e12 && c->kind[0].flops[PST_F32] == 0 &&
                c->kind[0].flops[PST_F8] == 600e12 && c->kind[0].bytes_per_s == 2e12 &&
                c->kind[0].watts == 500 && c->kind[0].reserved == 1 << 30);
    assert_int_equal(pst_cluster_between(c, 0, 1, &link), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "no link between the devices of node 0"));
    assert_int_equal(pst_cluster_between(c, 0, 2, &link), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "no link between nodes 0 and 1 (b)"));
    pst_cluster_close(c);
}

/* What groups do not say. */
static void short_forms_take_defaults(void **unused) {
    (void)unused;
    pst_cluster_link link;
    pst_cluster *c = parse("2x8 h100 + 4x8 a100-80 ib:200Gb/s");
    assert_int_equal(c->n_device, 48);
    assert_int_equal(pst_cluster_between(c, 0, 1, &link), PST_OK);
    assert_true(link.bytes_per_s == 450e9);
    assert_int_equal(pst_cluster_between(c, 0, 8, &link), PST_OK);
    /* a NIC for each */
    assert_true(link.bytes_per_s == 25e9 && c->node[0].node_bytes_per_s == 8 * 25e9);
    pst_cluster_close(c);
    c = parse("2x4 cpu ethernet:1Gb/s");
    assert_true(c->node[0].node_bytes_per_s == 125e6); /* one for all cores */
    assert_int_equal(pst_cluster_between(c, 0, 1, &link), PST_OK);
    assert_true(link.bytes_per_s == 4e9);
    pst_cluster_close(c);
    c = parse("8 h100");
    assert_int_equal(c->n_node, 1);
    pst_cluster_close(c);
    assert_int_equal(pst_cluster_load("3 b200", &c), PST_OK);
    assert_int_equal(c->n_device, 3);
    pst_cluster_close(c);
}

/* Whole nodes more or fewer, or a part of one. */
static void other_numbers_of_devices(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        uint32_t n;
        const char *resized, *wrong;
    } cases[] = {{"2x8 h100 ib:400Gb/s", 64, "8x8 h100 ib:400Gb/s", NULL},
                 {"8 h100 nvlink:900GB/s", 16, "2x8 h100 nvlink:900GB/s", NULL},
                 {"2x8 h100 ib:400Gb/s", 8, "2x8 h100 ib:400Gb/s", NULL},
                 {"2x8 h100 ib:400Gb/s", 4, "2x8 h100 ib:400Gb/s", NULL},
                 {"2x8 h100 + 1x4 v100 ib:400Gb/s", 20, "2x8 h100 + 1x4 v100 ib:400Gb/s", NULL},
                 {"2x8 h100 ib:400Gb/s", 60, NULL, "60 devices: the nodes of the cluster have 8"},
                 {"2x8 h100 ib:400Gb/s", 12, NULL, "a multiple or a divisor"},
                 {"2x8 h100 ib:400Gb/s", 3, NULL, "a multiple or a divisor"},
                 {"2x8 h100 + 1x4 v100 ib:400Gb/s", 28, NULL, "only a cluster of equal nodes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[PST_CLUSTER_TEXT];
        pst_status status = pst_cluster_resize(cases[i].text, cases[i].n, text);
        assert_int_equal(status, cases[i].resized ? PST_OK : PST_EINPUT);
        if (cases[i].resized) assert_string_equal(text, cases[i].resized);
        else if (!strstr(pst_error(), cases[i].wrong)) fail_msg("%zu says: %s", i, pst_error());
    }
}

static void one_value_is_changed(void **unused) {
    (void)unused;
    static const char *const wrong[][2] = {{"link.ib", "KEY=VALUE"},
                                           {"link.tb=1GB/s", "expected one of device, nvlink"},
                                           {"link.ib=fast", "expected a rate"},
                                           {"link.ib.width=1", "expected bandwidth or latency"},
                                           {"device.4.speed=1", "expected 0 to 3"},
                                           {"device.1.speed=nan", "a speed from 0.001"},
                                           {"device.1.colour=red", "expected speed or memory"},
                                           {"memory=3", "expected link.NAME"}};
    pst_cluster *c = parse("2x2 a100-40 ib:2x400Gb/s");
    assert_int_equal(pst_cluster_change(c, "link.ib=200Gb/s"), PST_OK);
    assert_true(c->node[1].link[PST_LEVEL_NODE].bytes_per_s == 25e9 &&
                c->node[1].node_bytes_per_s == 50e9);
    assert_int_equal(pst_cluster_change(c, "link.nvlink=300GB/s"), PST_OK);
    assert_true(c->node[0].link[PST_LEVEL_DEVICE].bytes_per_s == 150e9);
    assert_int_equal(pst_cluster_change(c, "link.node.latency=1ms"), PST_OK);
    assert_int_equal(c->node[0].link[PST_LEVEL_NODE].latency_ns, 1000000);
    assert_int_equal(pst_cluster_change(c, "device.3.speed=0.5"), PST_OK);
    assert_int_equal(pst_cluster_change(c, "device.*.memory=1GiB"), PST_OK);
    assert_true(c->device[3].speed == 0.5 && c->device[2].speed == 1 &&
                c->device[0].memory == 1 << 30);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(pst_cluster_change(c, wrong[i][0]), PST_EINPUT);
        if (!strstr(pst_error(), wrong[i][1])) fail_msg("%s says: %s", wrong[i][0], pst_error());
    }
    pst_cluster_close(c);
    c = parse("4 a100-40"); /* links that are not there */
    assert_int_equal(pst_cluster_change(c, "link.nvlink=300GB/s"), PST_OK);
    assert_int_equal(pst_cluster_change(c, "link.ib=200Gb/s"), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "one node"));
    pst_cluster_close(c);
    c = parse("2x1 a100-40 ib:200Gb/s");
    assert_int_equal(pst_cluster_change(c, "link.nvlink.latency=1us"), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "no node has several devices"));
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
        {"nodes: [{devices: [{memory: 0}]}]\n", "c.yaml:1:29", "expected a size, such as 64GiB"},
        {"nodes: [{name: a}]\n", "c.yaml:1:9", "missing key: devices"},
        {"nodes: [{devices: {count: 2}}]\n", "c.yaml:1:19", "a list of devices"},
        {"nodes: [{devices: [{sped: 2}]}]\n", "c.yaml:1:21",
         "\"sped\" is not a key of a cluster here; expected one of count"},
        {"nodes: [{devices: [{speed: 0}]}]\n", "c.yaml:1:28", "a number from 0.001 to 1000"},
        {"nodes: [{devices: [{memory: lots}]}]\n", "c.yaml:1:29", "bytes, such as 512M"},
        {"nodes: [{devices: [{count: -1}]}]\n", "c.yaml:1:28", "whole number from 1"},
        {"nodes: [{count: 60000, devices: [{count: 60000}]}]\n", "c.yaml:1:9",
         "too many devices; expected at most 65536"},
        {"nodes: [1, 2", "c.yaml:", "expected"},
        {"nodes: [{devices: [{kind: h10}]}]\n", "c.yaml:1:27", "did you mean 'H100'?"},
        {"nodes: [{devices: [{kind: a100}]}]\n", "c.yaml:1:27",
         "did you mean 'A100-40' or 'A100-80'?"},
        {"kinds: [{name: zeta, bandwidth: 1GB/s, fp32: 1e12}]\nnodes: [{devices: [{kind: zet}]}]\n",
         "c.yaml:2:27", "did you mean 'zeta'?"},
        {"kinds: [{name: zeta, bandwidth: 1GB/s, fp32: 1e12}]\nnodes: [{devices: [{kind: "
         "abacus}]}]\n",
         "c.yaml:2:27", "expected one of zeta, cpu, V100"},
        {"kinds: [{name: zeta, bandwidth: 1e9, fp32: 1e12}]\nnodes: [{devices: [{}]}]\n",
         "c.yaml:1:33", "with its unit"},
        {"links: {ib: 400}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:13",
         "with its unit, such as 450GB/s"},
        {"2 h100 nvlink:900", "c.yaml:1:8", "with its unit, such as nvlink:900GB/s"},
        {"2 h100 ib:400", "c.yaml:1:8", "with its unit, such as ib:400Gb/s"},
        {"nodes: [{devices: [{kind: abacus}]}]\n", "c.yaml:1:27",
         "expected one of cpu, V100, A100-40"},
        {"nodes: [{devices: [{count: 0}]}]\n", "c.yaml:1:28", "whole number from 1"},
        {"nodes: [{devices: [{speed: .nan}]}]\n", "c.yaml:1:28", "a number from 0.001"},
        {"links: {nvlnk: 1GB/s}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:9",
         "expected one of device, nvlink"},
        {"links: {ib: -1Gb/s}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:13", "a rate above 0"},
        {"links: {ib: 1Gb/s, nic: 1Gb/s}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:20",
         "given twice: the link between nodes"},
        {"links: {ib: {latency: 1us}}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:13",
         "missing key: bandwidth"},
        {"links: {ib: {bandwidth: 1Gb/s, latency: 1}}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:41",
         "a time, such as"},
        {"links: {pcie: {bandwidth: 1Gb/s, nics: 1}}\nnodes: [{devices: [{}]}]\n", "c.yaml:1:40",
         "between nodes"},
        {"kinds: [{name: a, bandwidth: 1GB/s}]\nnodes: [{devices: [{}]}]\n", "c.yaml:1:9",
         "one of fp32"},
        {"kinds: [{name: a, bandwidth: 1GB/s, fp32: nan}]\nnodes: [{devices: [{}]}]\n",
         "c.yaml:1:43", "a number from"},
        {"kinds: [{name: a, bandwidth: 1GB/s, fp32: 2e12, bf16: 1e12}]\nnodes: [{devices: [{}]}]\n",
         "c.yaml:1:55", "below that of a wider type, fp32"},
        {"kinds: [{name: a, bandwidth: 1GB/s, bf16: 1e12, reserved: 1GiB}]\n"
         "nodes: [{devices: [{}]}]\n",
         "c.yaml:1:59", "less than the memory of this kind: a"},
        {"16x8 h1000", "c.yaml:1:6", "did you mean 'H100'?"},
        {"16x8 ", "c.yaml:1:1", "keys and values"},
        {"0x8 h100", "c.yaml:1:1", "NODESxDEVICES"},
        {"8 h100 +", "c.yaml:1:9", "NODESxDEVICES"},
        {"8 h100 fast", "c.yaml:1:8", "expected a link"},
        {"8 h100 ib:0Gb/s", "c.yaml:1:8", "expected a rate"},
        {"8 h100 ib:1Gb/s nic:1Gb/s", "c.yaml:1:17", "is already given"},
        {"8 h100 nvlink:2x1GB/s", "c.yaml:1:8", "expected a rate"},
        {"8 h100 bw:1GB/s", "c.yaml:1:8", "expected speed, memory"},
        {"60000x8 h100", "c.yaml:1:", "too many devices; expected at most 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_cluster *c = NULL;
        assert_int_equal(pst_cluster_parse(cases[i].text, strlen(cases[i].text), "c.yaml", &c),
                         PST_EINPUT);
        assert_null(c);
        if (strncmp(pst_error(), cases[i].place, strlen(cases[i].place)) ||
            !strstr(pst_error(), cases[i].what))
            fail_msg("case %zu says: %s", i, pst_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_stand_in_the_order_of_the_file),
        cmocka_unit_test(kinds_and_links),
        cmocka_unit_test(short_forms_take_defaults),
        cmocka_unit_test(other_numbers_of_devices),
        cmocka_unit_test(one_value_is_changed),
        cmocka_unit_test(faults_are_named_with_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
