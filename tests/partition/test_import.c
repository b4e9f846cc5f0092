/* Readers of other planners' workloads: what is read, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/random_graph.h"
#include "partition/foreign/import.h"
#include <math.h>
#include <string.h>

#define HEAD "{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 2, \"maxCPUs\": 1, "
#define NODE(id, more)                                                                             \
    "{\"id\": " #id                                                                                \
    ", \"supportedOnFpga\": 1, \"cpuLatency\": 5, \"fpgaLatency\": 2, \"isBackwardNode\": 0" more  \
    "}"
#define EDGE(from, to, cost) "{\"sourceId\": " #from ", \"destId\": " #to ", \"cost\": " #cost "}"

static pst_import *read(const char *text) {
    pst_import *im = NULL;
    MUST(pst_import_parse(text, strlen(text), "w", &im));
    return im;
}

static void refused(const char *text, const char *because) {
    pst_import *im = NULL;
    assert_int_equal(pst_import_parse(text, strlen(text), "w", &im), PST_EINPUT);
    assert_null(im);
    if (!strstr(pst_error(), because)) fail_msg("'%s' does not say '%s'", pst_error(), because);
    assert_int_equal(strncmp(pst_error(), "w:", 2), 0);
}

static void dnn(void **unused) {
    (void)unused;
    pst_import *im = read(HEAD "\"nodes\": [" NODE(7, ", \"colorClass\": 1") ", " NODE(
        -3, ", \"size\": 4") ", "
                             "{\"id\": 9, \"supportedOnFpga\": false, \"cpuLatency\": 1, "
                             "\"fpgaLatency\": 0, "
                             "\"isBackwardNode\": true, \"colorClass\": 1}], "
                             "\"edges\": [" EDGE(7, -3, 0.5) ", " EDGE(7, 9, 0.5) "]}");
    assert_int_equal(im->format, PST_IMPORT_DNN);
    assert_int_equal(im->n_node, 3);
    assert_int_equal(im->n_class, 2);
    assert_int_equal(im->class_of[0], 0);
    assert_int_equal(im->class_of[1], 1);
    assert_int_equal(im->class_of[2], 0);
    assert_int_equal(im->id[1], -3);
    assert_true(im->time[0] == 2 && isinf(im->time[2]) && im->time[3 + 2] == 1);
    assert_true(im->transfer[0] == 0.5 && im->transfer[1] == 0 && im->size[1] == 4);
    assert_true(im->kind[0].count == 2 && im->kind[0].memory == 100 && im->kind[0].pays);
    assert_true(im->kind[1].count == 1 && isinf(im->kind[1].memory) && !im->kind[1].pays);
    pst_import_close(im);
}

static void dnn_mistakes(void **unused) {
    (void)unused;
    refused("{", "w:1:1: not JSON");
    refused("{}", "neither maxFPGAs (dnn-partitioning) nor mbsInBatch (Piper)");
    refused(HEAD "\"edges\": []}", "nodes: is missing");
    refused(HEAD "\"nodes\": [], \"edges\": []}", "nodes: has 0 elements; expected 1 to");
    refused(HEAD "\"nodes\": [4], \"edges\": []}", "nodes[0]: expected an object");
    refused(HEAD "\"nodes\": [" NODE(1, ", \"size\": -1") "], \"edges\": []}",
            "nodes[0].size: expected a number from 0");
    refused(HEAD "\"nodes\": [" NODE(1, ", \"size\": \"much\"") "], \"edges\": []}",
            "nodes[0].size: expected a number");
    refused(HEAD "\"nodes\": [" NODE(1, ", \"size\": NaN") "], \"edges\": []}", "not JSON");
    refused(HEAD "\"nodes\": [" NODE(1, "") ", " NODE(1, "") "], \"edges\": []}",
            "two nodes have the id 1");
    refused(HEAD "\"nodes\": [" NODE(1, "") ", {\"id\": 2}], \"edges\": []}",
            "nodes[1].supportedOnFpga: is missing");
    refused(HEAD "\"nodes\": [" NODE(1, "") "], \"edges\": [" EDGE(1, 2, 0) "]}",
            "edges[0].destId: no node has the id 2");
    refused(HEAD "\"nodes\": [" NODE(1, "") ", " NODE(2, "") ", " NODE(
                3, "") "], \"edges\": [" EDGE(1, 2, 1) ", " EDGE(1, 3, 2) "]}",
            "edges[1].cost is 2, but an earlier edge has cost 1; all edges from node 1 ");
    refused(HEAD "\"nodes\": [" NODE(1, "") ", " NODE(2, "") ", " NODE(
                3, "") "], \"edges\": [" EDGE(1, 2, 1) ", " EDGE(2, 3, 1) ", " EDGE(3, 2, 1) "]}",
            "2 nodes form a cycle: ");
    refused(
        HEAD "\"nodes\": [" NODE(
            1, "") ", {\"id\": 2, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 1, "
                   "\"isBackwardNode\": 1}], \"edges\": [" EDGE(2, 1, 1) "]}",
        "from 2 to 1 leads from a backward node to a forward one");
    refused(
        "{\"maxSizePerFPGA\": 1, \"maxFPGAs\": -1, \"maxCPUs\": 1, \"nodes\": [], \"edges\": []}",
        "maxFPGAs: expected a whole number");
}

static void judged_wrong(const pst_import *im, const char *plan, const char *because) {
    pst_import_plan made = {0};
    assert_int_equal(pst_import_read_plan(im, plan, strlen(plan), "p", &made), PST_EINPUT);
    assert_null(made.part_of);
    if (!strstr(pst_error(), because)) fail_msg("'%s' does not say '%s'", pst_error(), because);
    assert_int_equal(strncmp(pst_error(), "p:", 2), 0);
}

static void plans_that_are_none(void **unused) {
    (void)unused;
    pst_import *im =
        read(HEAD "\"nodes\": [" NODE(1, ", \"size\": 60") ", " NODE(2, ", \"size\": 60") ", " NODE(
            3, "") "], \"edges\": [" EDGE(1, 2, 1) ", " EDGE(2, 3, 1) "]}");
    pst_import_plan plan = {0};
    const char *scattered = "{\"fpgas\": [{\"nodes\": [3, 1]}, {\"nodes\": [2]}], \"cpus\": []}";
    judged_wrong(im, "{", "p:1:1: not JSON");
    judged_wrong(im, "{}", "fpgas: is missing");
    judged_wrong(im, "{\"stages\": [3]}", "stages[0]: expected an object");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1, 2, 9]}]}",
                 "stages[0]. nodes: an element is not");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1]}]}", "node 2 is in no stage");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1]}, {\"nodes\": [1]}]}",
                 "1 is already in an earlier stage");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1, 2, 3]}]}", "part 0 needs 120 bytes");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1]}, {\"nodes\": [2]}, {\"nodes\": [3]}]}",
                 "3 devices of kind");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1], \"kind\": \"tpu\"}]}",
                 "the cluster has no devices of this kind");
    judged_wrong(im, "{\"stages\": [{\"nodes\": [1], \"data\": 0}]}",
                 "data: expected a whole number");
    MUST(pst_import_read_plan(im, scattered, strlen(scattered), "p", &plan));
    assert_true(plan.not_contiguous && plan.objective == 6); /* computes 4; sends 1, gets 1 */
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

#define COSTS(f, b, a, p)                                                                          \
    "forward_compute_time=" f ", backward_compute_time=" b ", activation_size=" a                  \
    ", parameter_size=" p
#define LINE(id, what, f, b, p) "node" #id " -- " what " -- " COSTS(f, b, "8.0", p) "\n"

static void pipedream(void **unused) {
    (void)unused;
    pst_import *im = read(
        LINE(1, "Input0", "0.0", "0.0", "0.0") LINE(12, "Conv2d(3, 64)", "1.5", "0.5",
                                                    "100.000") LINE(3, "ReLU", "1.0", "2.0", "0.0")
            LINE(4, "__getitem__(1)", "1.0", "2.0", "0.0") "node5 -- Emb -- " COSTS(
                "1", "1", "[3.0; 4.0]",
                "2") " -- stage_id=1\n"
                     "\tnode1 -- node12\n\tnode12 -- node3\n\tnode12 -- node4\n\tnode3 -- node5");
    assert_int_equal(im->format, PST_IMPORT_PIPEDREAM);
    assert_int_equal(im->n_node, 3); /* without the input and the result that nobody takes */
    assert_int_equal(im->n_edge, 2);
    assert_int_equal(im->id[0], 12);
    assert_true(im->time[0] == 0.002 && im->parameters[0] == 100 && im->size[2] == 9);
    pst_import_close(im);
}

static void pipedream_mistakes(void **unused) {
    (void)unused;
    refused("", "nor a graph.txt with nodes");
    refused("hello\n", "w:1: 'hello': expected 'node' and a number");
    refused("node1 - x\n", "w:1: ' - x': expected ' -- '");
    refused("node1 -- x\n", "w:1: forward_compute_time=NUMBER is missing");
    refused(LINE(1, "x", "1", "1", "nan"), "w:1: parameter_size: 'nan'");
    refused(LINE(1, "x", "-1", "1", "0"), "w:1: forward_compute_time: '-1");
    refused(LINE(1, "x", "1", "1", "0") LINE(1, "x", "1", "1", "0"), "two nodes have the id 1");
    refused(LINE(1, "x", "1", "1", "0") "\tnode1 -- node2\n", "w:2: no node has the name node2");
    refused(LINE(1, "x", "1", "1", "0") "\tnode1\n", "w:2: '': expected two nodes");
    refused(LINE(1, "x", "1", "1", "0")
                LINE(2, "x", "1", "1", "0") "\tnode1 -- node2\n\tnode2 -- node1\n",
            "form a cycle: ");
    refused(LINE(1, "Input0", "1", "1", "0"), "the graph has only input nodes");
    refused("node1 -- x -- " COSTS("1", "1", "[1.0, 2.0]", "2"), "w:1: activation_size");
}

#define PIPER                                                                                      \
    "{\"maxDevices\": 4, \"maxMemoryPerDevice\": 64, \"bandwidth\": 16, \"mbsInBatch\": 8, "
#define WAY(name, time, fw, bw)                                                                    \
    "{\"id\": \"" name "\", \"timePerSample\": " time                                              \
    ", \"parameterSize\": 4, \"memoryUsageA\": 2, "                                                \
    "\"memoryUsageB\": 3, \"syncTimeFw\": {" fw "}, \"syncTimeBw\": {" bw "}}"
#define MANY(id, degree, ways) "{\"id\": " #id ", \"TMPCs\": {\"" degree "\": [" ways "]}}"
#define BYTES(from, to) "{\"sourceId\": " #from ", \"destId\": " #to ", \"communicationCost\": 32}"

static void piper(void **unused) {
    (void)unused;
    pst_import *im = read(PIPER "\"nodes\": [" MANY(
        5, "1",
        WAY("a", "1", "", "\"9\": 0.5") ", " WAY(
            "b", "2", "", "\"9\": 0.25")) ", "
                                          "{\"id\": 9, \"TMPCs\": {\"4\": [" WAY(
                                              "c", "1", "\"5\": 7",
                                              "") "], \"1\": [" WAY("d", "3", "\"5\": 0",
                                                                    "") "]}}], "
                                                                        "\"edges\": [" BYTES(
                                                                            5, 9) "]}");
    const pst_tensor_problem *p = im->tensor;
    assert_int_equal(im->format, PST_IMPORT_PIPER);
    assert_true(p->devices == 4 && p->micro_batches == 8 && p->memory == 64 && p->bandwidth == 16);
    assert_true(p->n_degree == 2 && p->degree[0] == 1 && p->degree[1] == 4);
    assert_string_equal(pst_tensor_way_of(p, 0, 0, 1)->name, "b");
    assert_string_equal(pst_tensor_way_of(p, 0, 1, 0)->name, "");
    assert_string_equal(pst_tensor_way_of(p, 1, 1, 0)->name, "c");
    assert_true(pst_tensor_extra(p, 0, 0, 1)[0] == 0.25 && pst_tensor_extra(p, 1, 1, 0)[0] == 7);
    assert_true(p->edge[0].bytes == 32 && p->edge[0].from == 0 && p->edge[0].to == 1);
    pst_import_close(im);
}

static void piper_mistakes(void **unused) {
    (void)unused;
    refused("{\"mbsInBatch\": 0}", "maxDevices: is missing");
    refused(PIPER "\"nodes\": [{\"id\": 1}], \"edges\": []}", "nodes[0].TMPCs. expected an object");
    refused(PIPER "\"nodes\": [" MANY(1, "0", "") "], \"edges\": []}",
            "tensor degree outside 1 to 4096");
    refused(PIPER "\"nodes\": [" MANY(1, "two", "") "], \"edges\": []}",
            "nodes[0].TMPCs.two: expected an integer as the key");
    refused(PIPER "\"nodes\": [" MANY(1, "1", "{}, {}, {}") "], \"edges\": []}",
            "nodes[0].TMPCs.1: has 3 elements; expected 0 to 2");
    refused(PIPER "\"nodes\": [" MANY(1, "1", WAY("", "1", "", "")) "], \"edges\": []}",
            "nodes[0].TMPCs.1[0]. id: expected a name");
    refused(PIPER "\"nodes\": [" MANY(1, "1", WAY("a", "-1", "", "")) "], \"edges\": []}",
            "TMPCs.1[0].timePerSample: expected a number");
    refused(PIPER "\"nodes\": [" MANY(1, "1", WAY("a", "1", "\"3\": 1", "")) "], \"edges\": []}",
            "names a node to which there is no edge");
    refused(PIPER "\"nodes\": [" MANY(1, "1", WAY("a", "1", "", "")) ", " MANY(
                2, "1", WAY("a", "1", "", "")) "], \"edges\": [" BYTES(1, 2) "]}",
            "nodes[0].TMPCs.1[0].syncTimeBw.2: is missing");
    refused(PIPER "\"nodes\": [" MANY(1, "1", "") ", " MANY(2, "1", "") "], \"edges\": [" BYTES(
                1, 2) ", " BYTES(1, 2) "]}",
            "two edges from 1 to 2");
    refused(PIPER "\"nodes\": [" MANY(1, "1", "") "], \"edges\": [" BYTES(1, 1) "]}",
            "form a cycle: 1 <- 1");
}

/* Nodes of 6, 2 and 4 ms: two of three GPUs share the first two, whose replicas exchange 4 * 1/2 *
 * 100 bytes. */
static void replicas_share_a_part(void **unused) {
    (void)unused;
    pst_import *im = read(LINE(1, "a", "3", "3", "50") LINE(2, "b", "1", "1", "50")
                              LINE(3, "c", "2", "2", "1e9") "\tnode1 -- node2\n\tnode2 -- node3\n");
    pst_import_plan plan;
    im->kind[0].count = 3;
    im->bandwidth = 1e6;
    MUST(pst_import_solve(im, 60, &plan));
    assert_int_equal(plan.n_part, 2);
    assert_int_equal(plan.devices[0], 2);
    assert_int_equal(plan.devices[1], 1);
    assert_true(fabs(plan.load[0] - (0.008 + 4 * 100 / (2 * 1e6)) / 2) < 1e-12);
    assert_true(fabs(plan.objective - plan.load[0]) < 1e-12);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

static void the_judge_sees_bad_plans(void **unused) {
    (void)unused;
    pst_import *im = read(HEAD "\"nodes\": [" NODE(1, ", \"size\": 60") ", " NODE(
        2, ", \"size\": 60") "], \"edges\": [" EDGE(1, 2, 1) "]}");
    uint32_t part_of[2] = {0, 1}, kind[2] = {0, 0}, devices[2] = {1, 1};
    double load[2];
    pst_import_plan plan = {
        .n_part = 2, .part_of = part_of, .kind = kind, .devices = devices, .load = load};
    MUST(pst_import_evaluate(im, &plan));
    assert_true(plan.objective == 3 && load[0] == 3 && load[1] == 3);
    part_of[0] = 1;
    part_of[1] = 0;
    assert_int_equal(pst_import_evaluate(im, &plan), PST_EINTERNAL); /* runs back */
    part_of[1] = 1;
    assert_int_equal(pst_import_evaluate(im, &plan), PST_EINTERNAL); /* 120 bytes */
    kind[1] = 1;
    MUST(pst_import_evaluate(im, &plan));
    assert_true(plan.objective == 10);
    devices[1] = 2;
    assert_int_equal(pst_import_evaluate(im, &plan), PST_EINTERNAL); /* there is one CPU */
    pst_import_close(im);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dnn),
        cmocka_unit_test(dnn_mistakes),
        cmocka_unit_test(plans_that_are_none),
        cmocka_unit_test(pipedream),
        cmocka_unit_test(pipedream_mistakes),
        cmocka_unit_test(piper),
        cmocka_unit_test(piper_mistakes),
        cmocka_unit_test(replicas_share_a_part),
        cmocka_unit_test(the_judge_sees_bad_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
