/* test: label=quick */
/* Plans: printed and parsed they stay the same; every fault of a file is named with its place; the
 * check finds what does not fit the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/random_graph.h"
#include "pipeline/layout/plan.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD                                                                                       \
    "graph_hash: \"0123456789abcdef\"\nschedule: gpipe\nranks: 2\nmicro_batches: 4\nmicro_batch: " \
    "1\n"
#define CHUNKS                                                                                     \
    "chunks:\n  - {chunk: 0, rank: 0, nodes: [0, 3]}\n  - {chunk: 1, rank: 1, nodes: [4, 4]}\n"

#define LONG "0123456789abcdef 0123456789abcdef "

static pst_plan *plan_for(const pst_graph *g, uint32_t n_rank) {
    pst_layout l = {.pipeline = n_rank,
                    .data = 2,
                    .tensor = 3,
                    .sequence = 1,
                    .zero = 2,
                    .micro_batch = g->micro_batch,
                    .n_micro = 8,
                    .schedule = "1f1b-early",
                    .chunks = 1};
    pst_plan *p;
    assert_int_equal(pst_layout_open_cut(&l, g->n_node, n_rank), PST_OK);
    for (uint32_t r = 0; r < n_rank; r++) {
        l.first_item[r + 1] = (uint32_t)((uint64_t)g->n_node * (r + 1) / n_rank);
        l.rank_of_chunk[r] = r;
    }
    l.micros = malloc(2 * sizeof *l.micros);
    l.device = malloc(6 * n_rank * sizeof *l.device);
    assert_true(l.micros && l.device);
    l.micros[0] = 3;
    l.micros[1] = 5;
    for (uint32_t r = 0; r < 6 * n_rank; r++) l.device[r] = 6 * n_rank - 1 - r;
    /* 3, 1, 3, 1, ... */
    if (n_rank % 2 == 0 && (l.tensor_before = calloc(n_rank + 1, sizeof *l.tensor_before)))
        for (uint32_t s = 0; s < n_rank; s++)
            l.tensor_before[s + 1] = l.tensor_before[s] + (s % 2 ? 1 : 3);
    assert_int_equal(pst_plan_open(&l, pst_graph_hash(g), &p), PST_OK);
    pst_layout_close(&l);
    for (uint32_t r = 0; r < n_rank; r++) p->peak_bytes[r] = UINT64_MAX - r;
    p->step_ns = 123456789012345;
    p->flush_ns = 7;
    p->bubble = 1.0 / 3;
    p->bound_ns = 12345;
    assert_int_equal(pst_plan_set_text(&p->cluster, "2x8 h100 \"ib\": 400Gb/s # \xc3\xa9"), PST_OK);
    assert_int_equal(pst_plan_set_text(&p->run, "/some where/run.yaml"), PST_OK);
    const pst_choice choice[] = {{"A \"device\" x132, of: 1x2x3", "0000000000000066 7"},
                                 {"a", "b: c #"}};
    assert_int_equal(pst_plan_set_choices(p, choice, n_rank % 3), PST_OK);
    return p;
}

static void assert_same_layout(const pst_layout *p, const pst_layout *q) {
    assert_true(q->data == p->data && q->tensor == p->tensor && q->sequence == p->sequence &&
                q->zero == p->zero);
    assert_true(q->micro_batch == p->micro_batch && q->n_micro == p->n_micro);
    assert_true(q->pipeline == p->pipeline && q->chunks == p->chunks);
    assert_string_equal(q->schedule, p->schedule);
    assert_memory_equal(q->micros, p->micros, p->data * sizeof(uint32_t));
    assert_int_equal(!q->tensor_before, !p->tensor_before);
    if (p->tensor_before)
        assert_memory_equal(q->tensor_before, p->tensor_before,
                            (p->pipeline + 1) * sizeof(uint32_t));
    assert_memory_equal(q->device, p->device, pst_grid_size(pst_layout_grid(p)) * sizeof(uint32_t));
    assert_true(q->n_item == p->n_item && q->n_chunk == p->n_chunk);
    assert_memory_equal(q->first_item, p->first_item, (p->n_chunk + 1) * sizeof(uint32_t));
    assert_memory_equal(q->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof(uint32_t));
    assert_int_equal(q->n_recompute, p->n_recompute);
    assert_memory_equal(q->recompute, p->recompute, p->n_chunk * sizeof *p->recompute);
}

static void assert_same_job(const pst_plan *p, const pst_plan *q) {
    assert_same_layout(&p->layout, &q->layout);
    assert_string_equal(q->cluster, p->cluster);
    assert_string_equal(q->run, p->run);
    assert_true(q->bound_ns == p->bound_ns);
    assert_int_equal(q->n_choice, p->n_choice);
    for (uint32_t i = 0; i < p->n_choice; i++) {
        assert_string_equal(q->choice[i].of, p->choice[i].of);
        assert_string_equal(q->choice[i].is, p->choice[i].is);
    }
}

static pst_status print_and_parse(const pst_plan *p, const pst_graph *g, pst_plan **again) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(pst_plan_print(p, g, out), PST_OK);
    fclose(out);
    pst_status status = pst_plan_parse(text, bytes, "plan.yaml", again);
    free(text);
    return status;
}

static void printed_plans_come_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        pst_graph *g = random_graph(seed);
        pst_plan *p = plan_for(g, 1 + (uint32_t)seed % (g->n_node < 7 ? g->n_node : 7)), *q;
        p->layout.recompute[0] = PST_RECOMPUTE_FULL;
        assert_int_equal(pst_plan_check(p, g), PST_OK);
        if (print_and_parse(p, seed % 2 ? g : NULL, &q) != PST_OK)
            fail_msg("seed %d: %s", (int)seed, pst_error());
        assert_int_equal(pst_plan_check(q, g), PST_OK);
        assert_true(q->step_ns == p->step_ns && q->flush_ns == p->flush_ns &&
                    q->bubble == p->bubble);
        assert_memory_equal(q->peak_bytes, p->peak_bytes, p->layout.pipeline * sizeof(uint64_t));
        assert_same_job(p, q);
        pst_plan_close(q);
        assert_int_equal(pst_plan_copy(p, &q), PST_OK);
        assert_same_job(p, q);
        pst_plan_close(q);
        pst_plan_close(p);
        pst_graph_close(g);
    }
}

/* Files of before say nothing of replicas and tensor ranks. */
static void what_is_not_said_stays_open(void **state) {
    (void)state;
    pst_plan *p;
    assert_int_equal(pst_plan_parse(HEAD CHUNKS, sizeof HEAD CHUNKS - 1, "p.yaml", &p), PST_OK);
    assert_int_equal(p->layout.data, 0);
    assert_null(p->layout.micros);
    assert_null(p->layout.device);
    assert_null(p->cluster);
    pst_plan_close(p);
    assert_int_equal(pst_plan_parse(HEAD "data: 2\n" CHUNKS, sizeof HEAD CHUNKS + 7, "p.yaml", &p),
                     PST_OK);
    assert_int_equal(p->layout.tensor, 1);
    assert_int_equal(pst_plan_job_ranks(p), 4);
    pst_plan_close(p);
}

static void stages_have_their_own_tensor_ranks(void **state) {
    (void)state;
    static const char differ[] = HEAD "data: 2\ntensor: [1, 3]\n" CHUNKS,
                      equal[] = HEAD "data: 2\ntensor: [3, 3]\n" CHUNKS;
    pst_plan *p;
    assert_int_equal(pst_plan_parse(differ, sizeof differ - 1, "p.yaml", &p), PST_OK);
    assert_int_equal(p->layout.tensor, 3);
    assert_int_equal(pst_plan_job_ranks(p), 8);
    assert_int_equal(pst_grid_degree(pst_plan_grid(p), 0), 1);
    pst_plan_close(p);
    assert_int_equal(pst_plan_parse(equal, sizeof equal - 1, "p.yaml", &p), PST_OK);
    assert_null(p->layout.tensor_before);
    assert_int_equal(p->layout.tensor, 3);
    pst_plan_close(p);
}

static void faults_are_named_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *what;
    } cases[] = {
        {"", "p.yaml", "empty"},
        {HEAD CHUNKS "colour: red\n", "p.yaml:9:1", "\"colour\" is not a key"},
        {HEAD CHUNKS "ranks: 2\n", "p.yaml:9:1", "given twice"},
        {HEAD, "p.yaml:1:1", "missing key: chunks"},
        {HEAD "chunks: 3\n", "p.yaml:6:9", "a list of chunks"},
        {HEAD "chunks: []\n", "p.yaml:6:9", "1 to 65535 chunks"},
        {HEAD "chunks:\n  - {chunk: 0, rank: 2, nodes: [0, 3]}\n", "p.yaml:7:22", "from 0 to 1"},
        {HEAD "chunks:\n  - {chunk: 0, rank: 0, nodes: [1, 3]}\n", "p.yaml:7:33", "from 0 to 0"},
        {HEAD "chunks:\n  - {chunk: 0, rank: 0, nodes: [0, 99999999999]}\n", "p.yaml:7:36",
         "whole number"},
        {HEAD "chunks:\n  - {chunk: 0, rank: 0}\n", "p.yaml:7:5", "missing key: nodes"},
        {HEAD CHUNKS "predicted: {peak_bytes: [1]}\n", "p.yaml:9:25",
         "2 numbers, one per rank (bytes)"},
        {HEAD CHUNKS "predicted: {bubble: nan}\n", "p.yaml:9:21", "number from 0 to 1"},
        {"graph_hash: 12\nschedule: gpipe\nranks: 2\nmicro_batches: 4\nmicro_batch: 1\n" CHUNKS,
         "p.yaml:1:13", "16 hex"},
        {"graph_hash: \"0123456789abcdef\"\nschedule: gpip\nranks: 2\nmicro_batches: "
         "4\nmicro_batch: 1\n" CHUNKS,
         "p.yaml:2:11", "did you mean \"gpipe\""},
        {"graph_hash: \"0123456789abcdef\"\nschedule: gpipe\nranks: -2\nmicro_batches: "
         "4\nmicro_batch: 1\n" CHUNKS,
         "p.yaml:3:8", "whole number from 1"},
        {"graph_hash: \"0123456789abcdef\"\nschedule: gpipe\nranks: 7\nmicro_batches: "
         "4\nmicro_batch: 1\ndata: 2\n"
         "devices: [0, 1, 2, 3]\n" CHUNKS,
         "p.yaml:3:8", "ranks is 7, but the chunks use ranks 0 to 1: expected 2"},
        {HEAD "tensor: 2\n" CHUNKS, "p.yaml:6:9", "missing key: data"},
        {HEAD "data: 2\nreplicas: [1, 2]\n" CHUNKS, "p.yaml:7:11", "do not add up"},
        {HEAD "data: 2\nreplicas: [4]\n" CHUNKS, "p.yaml:7:11", "2 numbers"},
        {HEAD "data: 2\ndevices: [0, 1]\n" CHUNKS, "p.yaml:7:10", "4 numbers"},
        {HEAD "data: 2\nsequence: yes\n" CHUNKS, "p.yaml:7:11", "true or false"},
        {HEAD "data: 2\nzero: 3\n" CHUNKS, "p.yaml:7:7", "from 0 to 2"},
        {HEAD "data: 60000\ntensor: 60000\n" CHUNKS, "p.yaml:6:7", "65536"},
        {HEAD "data: 2\ntensor: [1]\n" CHUNKS, "p.yaml:7:9",
         "2 numbers, one per stage (tensor ranks)"},
        {HEAD "data: 2\ntensor: [1, 0]\n" CHUNKS, "p.yaml:7:13", "from 1 to 65535"},
        {HEAD "data: 2\ntensor: [1, 2]\ndevices: [0]\n" CHUNKS, "p.yaml:8:10", "6 numbers"},
        {HEAD "data: 2\ntensor: [65535, 65535]\n" CHUNKS, "p.yaml:6:7", "65536"},
        {HEAD CHUNKS "products: fast\n", "p.yaml:9:11",
         "choices of the form {of: STRING, is: STRING}"},
        {HEAD CHUNKS "products:\n  - {of: a}\n", "p.yaml:10:5", "missing key: is"},
        {HEAD CHUNKS "products:\n  - {of: [a], is: b}\n", "p.yaml:10:10", "expected a string"},
        {HEAD CHUNKS "products:\n  - {of: a, is: " LONG LONG LONG LONG LONG "}\n", "p.yaml:10:17",
         "a shorter string"},
        {"[1, 2", "p.yaml:", "expected"},
        {"- a\n", "p.yaml:1:1", "keys and values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_plan *p;
        assert_int_equal(pst_plan_parse(cases[i].text, strlen(cases[i].text), "p.yaml", &p),
                         PST_EINPUT);
        if (strncmp(pst_error(), cases[i].place, strlen(cases[i].place)) ||
            !strstr(pst_error(), cases[i].what)) {
            fail_msg("case %zu says: %s", i, pst_error());
        }
    }
}

static void files_are_read_and_missing_ones_named(void **state) {
    (void)state;
    char path[] = "/tmp/pst_plan_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, HEAD CHUNKS, sizeof HEAD CHUNKS - 1), sizeof HEAD CHUNKS - 1);
    close(fd);
    pst_plan *p;
    assert_int_equal(pst_plan_load(path, &p), PST_OK);
    assert_int_equal(p->layout.n_item, 5);
    assert_int_equal(p->layout.first_item[1], 4);
    pst_plan_close(p);
    unlink(path);
    assert_int_equal(pst_plan_load(path, &p), PST_EINPUT);
    assert_non_null(strstr(pst_error(), path));
    assert_int_equal(pst_plan_load("/", &p), PST_EINPUT);
}

static void misfits_are_refused(void **state) {
    (void)state;
    pst_graph *g = random_graph(3);
    for (int k = 0; k < 11; k++) {
        pst_plan *p = plan_for(g, 2);
        if (k == 0) p->graph_hash ^= 1;
        pst_layout *l = &p->layout;
        if (k == 1) l->micro_batch++;
        if (k == 2) l->n_item--;
        if (k == 3) l->first_item[0] = 1;
        if (k == 4) l->first_item[2]--;
        if (k == 5) l->first_item[1] = l->n_item;
        if (k == 6) l->rank_of_chunk[1] = 2;
        if (k == 7) l->rank_of_chunk[1] = 0;
        if (k == 8) l->n_micro = 0;
        if (k == 9) strcpy(l->schedule, "2f2b");
        if (k == 10) l->first_item[1] = 0;
        assert_int_equal(pst_plan_check(p, g), PST_EINPUT);
        pst_plan_close(p);
    }
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_plans_come_back),
        cmocka_unit_test(what_is_not_said_stays_open),
        cmocka_unit_test(stages_have_their_own_tensor_ranks),
        cmocka_unit_test(faults_are_named_with_their_place),
        cmocka_unit_test(files_are_read_and_missing_ones_named),
        cmocka_unit_test(misfits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
