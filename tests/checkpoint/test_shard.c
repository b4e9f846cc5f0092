/* Shards: whatever the tensors' sizes and wherever they lie, the file holds them as they were when
 * the round began, though each is overwritten as soon as it is released; on a disk that is slow or
 * full, past the page cache or through it. */
#include "base/hash.h"
#include "base/rng.h"
#include "checkpoint/durable.h"
#include "checkpoint/saver.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 24, ROUNDS = 12 };
static const char *const suffix[] = {"", ".m", ".v"}; /* of a weight, and of its states */

static char root[64], other[64]; /* on the disk; in memory */
static uint64_t seed = 1, state;

static uint64_t draw(uint64_t below) {
    state = pst_hash64(&state, sizeof state, seed);
    return state % below;
}

/* Parameters with adamw's state, at places that fit direct writes and at others. */
typedef struct {
    uint32_t n;
    pst_param param[MOST];
    pst_ckpt_entry entry[MOST];
    float *memory, *copy; /* copy: as the round began */
    size_t elements;
} model;

static void open_model(model *m, int aligned, uint32_t most, uint64_t largest) {
    size_t at[MOST][3];
    memset(m, 0, sizeof *m);
    m->n = (uint32_t)draw(most) + 1;
    for (uint32_t i = 0; i < m->n; i++) {
        uint64_t elements = aligned ? 128 * (1 + draw(largest / 128)) : 1 + draw(largest);
        m->param[i] = (pst_param){.n_dim = 1, .dim = {elements}};
        snprintf(m->param[i].name, sizeof m->param[i].name, "h.%u.weight", i);
        for (int k = 0; k < 3; k++) {
            at[i][k] = m->elements;
            m->elements += elements + (aligned ? 0 : draw(3) * 16 + draw(2));
        }
    }
    m->memory = aligned_alloc(4096, (m->elements * sizeof(float) + 4095) / 4096 * 4096);
    m->copy = malloc(m->elements * sizeof(float));
    assert_true(m->memory && m->copy);
    for (uint32_t i = 0; i < m->n; i++)
        m->entry[i] = (pst_ckpt_entry){.param = &m->param[i],
                                       .weight = m->memory + at[i][0],
                                       .state = {m->memory + at[i][1], m->memory + at[i][2]}};
}

static void fill(model *m) {
    pst_rng_normal(pst_rng_key(draw(UINT64_MAX), "x"), 0, 1, m->memory, m->elements);
    memcpy(m->copy, m->memory, m->elements * sizeof(float));
}

static void close_model(model *m) {
    free(m->memory);
    free(m->copy);
}

/* What STEP does: each parameter as soon as it may be changed. */
static void scribble(const model *m, pst_shard *s) {
    for (uint32_t i = 0; i < m->n; i++) {
        while (!pst_shard_released(s, i, 1000000)) {}
        size_t bytes = pst_param_elements(&m->param[i]) * sizeof(float);
        memset((void *)(uintptr_t)m->entry[i].weight, (int)draw(256), bytes);
        for (int k = 0; k < 2; k++)
            memset((void *)(uintptr_t)m->entry[i].state[k], (int)draw(256), bytes);
    }
}

static void expect_tensor(const model *m, const pst_safetensors_file *f, const char *name,
                          const float *memory, uint64_t n) {
    char key[PST_NAME_MAX + 16], hash[20];
    float *value = malloc(n * sizeof *value);
    const pst_safetensors_entry *e = pst_safetensors_find(f, name);
    assert_true(value && e);
    assert_int_equal(pst_safetensors_read_f32(f, e, value, n, 0), PST_OK);
    assert_memory_equal(value, m->copy + (memory - m->memory), n * sizeof *value);
    snprintf(key, sizeof key, "xxh3:%s", name);
    snprintf(hash, sizeof hash, "%016" PRIx64, pst_hash_bytes(value, n * sizeof *value));
    assert_string_equal(pst_safetensors_meta(f, key), hash);
    free(value);
}

static void expect_file(const model *m, const char *path) {
    pst_safetensors_file *f;
    if (pst_safetensors_open(path, &f) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(f->n_entry, 3 * m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        char name[PST_NAME_MAX + 8];
        uint64_t n = pst_param_elements(&m->param[i]);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "h.%u.weight%s", i, suffix[k]);
            expect_tensor(m, f, name, k ? m->entry[i].state[k - 1] : m->entry[i].weight, n);
        }
    }
    pst_safetensors_close(f);
}

static void round_of(model *m, uint64_t piece, const char *folder, uint64_t slow_ns,
                     uint64_t deadline_ns) {
    pst_shard *shard;
    pst_saver *saver;
    char path[128];
    snprintf(path, sizeof path, "%s/shard", folder);
    assert_int_equal(pst_shard_open(pst_optim_find("adamw"), m->entry, m->n, piece, &shard),
                     PST_OK);
    assert_int_equal(pst_saver_open(&shard, 1, &saver), PST_OK);
    pst_durable_slow(slow_ns);
    for (int i = 0; i < 2; i++) { /* the second with the same threads, over the first's file */
        fill(m);
        pst_shard_begin(shard, path, deadline_ns);
        pst_saver_write(saver, NULL, NULL, NULL);
        scribble(m, shard);
        if (pst_saver_wait(saver) != PST_OK) fail_msg("%s", pst_error());
        expect_file(m, path);
    }
    pst_durable_slow(0);
    pst_saver_close(saver);
    pst_shard_close(shard);
}

static void test_rounds(void **unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        model m;
        state = (uint64_t)i;
        open_model(&m, i % 3 == 0, MOST, i % 2 ? 300 : 9000);
        uint64_t piece = i % 4 == 3 ? 0 : 4096 * (1 + draw(6));
        round_of(&m, piece, i % 2 ? root : other, i % 3 == 1 ? 200000 : 0, i % 5 == 1 ? 1 : 0);
        close_model(&m);
    }
}

/* Late, the rest goes through the page cache, and is there all the same: faster than the disk alone
 * would be. */
static void test_late(void **unused) {
    (void)unused;
    model m;
    state = 77;
    open_model(&m, 1, 4, 40000);
    round_of(&m, 4096, root, 2000000, 30000000);
    close_model(&m);
}

static void write_alone(pst_shard *s, const char *path) {
    void *buffer = pst_shard_buffer(s);
    pst_shard_begin(s, path, 0);
    while (pst_shard_write(s, buffer)) {}
    pst_shard_buffer_free(s, buffer);
}

static pst_status verify_alone(pst_shard *s) {
    void *buffer = pst_shard_buffer(s);
    while (pst_shard_verify(s, buffer)) {}
    pst_shard_buffer_free(s, buffer);
    return pst_shard_end(s);
}

/* What is not on the disk as it was written is found before the checkpoint counts. */
static void test_read_back(void **unused) {
    (void)unused;
    model m;
    pst_shard *s;
    char path[128];
    state = 5;
    open_model(&m, 0, MOST, 3000);
    fill(&m);
    for (int where = 0; where < 2; where++) {
        snprintf(path, sizeof path, "%s/damaged", where ? root : other);
        assert_int_equal(pst_shard_open(pst_optim_find("adamw"), m.entry, m.n, 4096, &s), PST_OK);
        write_alone(s, path);
        assert_int_equal(verify_alone(s), PST_OK);
        for (int i = 0; i < 20; i++) {
            write_alone(s, path);
            FILE *f = fopen(path, "r+");
            assert_non_null(f);
            fseek(f, 0, SEEK_END);
            long at = (long)draw((uint64_t)ftell(f));
            fseek(f, at, SEEK_SET);
            int byte = fgetc(f);
            fseek(f, at, SEEK_SET);
            fputc(byte ^ 1 << draw(8), f);
            fclose(f);
            assert_int_equal(verify_alone(s), PST_ENOMEM);
            if (!strstr(pst_error(), "damaged on the disk") || !strstr(pst_error(), path))
                fail_msg("%s", pst_error());
            assert_int_equal(access(path, F_OK), -1);
        }
        pst_shard_close(s);
    }
    close_model(&m);
}

/* Nothing that is no number, wherever it stands. */
static void test_not_finite(void **unused) {
    (void)unused;
    model m;
    pst_shard *s;
    char path[128], expected[64];
    snprintf(path, sizeof path, "%s/nan", root);
    state = 9;
    open_model(&m, 0, MOST, 2000);
    fill(&m);
    assert_int_equal(pst_shard_open(pst_optim_find("adamw"), m.entry, m.n, 4096, &s), PST_OK);
    for (int i = 0; i < 60; i++) {
        uint32_t p = (uint32_t)draw(m.n), k = (uint32_t)draw(3);
        float *at = (float *)(uintptr_t)(k ? m.entry[p].state[k - 1] : m.entry[p].weight);
        uint64_t n = pst_param_elements(&m.param[p]), where = i % 3 == 0 ? n - 1 : draw(n);
        float before = at[where];
        at[where] = i % 2 ? NAN : -INFINITY;
        write_alone(s, path);
        assert_int_equal(verify_alone(s), PST_EINPUT);
        snprintf(expected, sizeof expected, "h.%u.weight%s is not finite", p, suffix[k]);
        assert_string_equal(pst_error(), expected);
        assert_int_equal(access(path, F_OK), -1);
        at[where] = before;
    }
    pst_shard_close(s);
    close_model(&m);
}

/* Whichever operation fails: nothing is left of the file, every parameter is released, the next
 * round is good. */
static void test_full(void **unused) {
    (void)unused;
    model m;
    pst_shard *shard;
    pst_saver *saver;
    char path[128];
    uint64_t n = 1;
    snprintf(path, sizeof path, "%s/full", other);
    state = 11;
    open_model(&m, 0, MOST, 2500);
    assert_int_equal(pst_shard_open(pst_optim_find("adamw"), m.entry, m.n, 8192, &shard), PST_OK);
    assert_int_equal(pst_saver_open(&shard, 1, &saver), PST_OK);
    for (pst_status status = PST_EINTERNAL; status != PST_OK; n++) {
        fill(&m);
        pst_durable_fail_after(n);
        pst_shard_begin(shard, path, 0);
        pst_saver_write(saver, NULL, NULL, NULL);
        scribble(&m, shard);
        status = pst_saver_wait(saver);
        pst_durable_fail_after(0);
        if (status == PST_OK) break;
        assert_int_equal(status, PST_ENOMEM);
        if (!strstr(pst_error(), "No space left on device") || !strstr(pst_error(), path))
            fail_msg("%s", pst_error());
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_true(n > 6);
    expect_file(&m, path);
    pst_saver_close(saver);
    pst_shard_close(shard);
    close_model(&m);
}

/* Closing amid a round leaves nothing. */
static void test_cancel(void **unused) {
    (void)unused;
    model m;
    pst_shard *shard;
    pst_saver *saver;
    char path[128];
    snprintf(path, sizeof path, "%s/cancelled", root);
    state = 13;
    open_model(&m, 1, MOST, 9000);
    for (int i = 0; i < 4; i++) {
        fill(&m);
        assert_int_equal(pst_shard_open(pst_optim_find("adamw"), m.entry, m.n, 4096, &shard),
                         PST_OK);
        assert_int_equal(pst_saver_open(&shard, 1, &saver), PST_OK);
        /* seven pieces by two threads: a loaded machine does not oversleep it */
        pst_durable_slow(50000000);
        pst_shard_begin(shard, path, 0);
        pst_saver_write(saver, NULL, NULL, NULL);
        usleep((useconds_t)draw(8000));
        pst_fail(PST_EPEER, "what was said before");
        pst_saver_close(saver);
        assert_string_equal(pst_error(), "what was said before");
        pst_shard_close(shard);
        pst_durable_slow(0);
        assert_int_equal(access(path, F_OK), -1);
    }
    close_model(&m);
}

static long size_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

/* Many small tensors with a long header make the larger file, one tensor the larger pieces: either
 * fits every buffer. */
static void test_two(void **unused) {
    (void)unused;
    model m = {.n = MOST};
    pst_shard *shard[2];
    pst_saver *saver;
    char path[2][128];
    const uint64_t last = 1500;
    m.elements = 3 * (MOST - 1 + last);
    m.memory = malloc(m.elements * sizeof(float));
    m.copy = malloc(m.elements * sizeof(float));
    assert_true(m.memory && m.copy);
    for (uint32_t i = 0; i < m.n; i++) {
        float *at = m.memory + 3 * i;
        uint64_t n = i + 1 == m.n ? last : 1;
        m.param[i] = (pst_param){.n_dim = 1, .dim = {n}};
        snprintf(m.param[i].name, sizeof m.param[i].name, "h.%u.%0*d", i, i + 1 == m.n ? 1 : 85, 0);
        m.entry[i] =
            (pst_ckpt_entry){.param = &m.param[i], .weight = at, .state = {at + n, at + 2 * n}};
    }
    assert_int_equal(pst_shard_open(pst_optim_find("sgd"), m.entry, MOST - 1, 0, &shard[0]),
                     PST_OK);
    assert_int_equal(pst_shard_open(pst_optim_find("sgd"), m.entry + MOST - 1, 1, 0, &shard[1]),
                     PST_OK);
    assert_int_equal(pst_saver_open(shard, 2, &saver), PST_OK);
    fill(&m);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/two-%d", root, i);
        pst_shard_begin(shard[i], path[i], 0);
    }
    pst_saver_write(saver, NULL, NULL, NULL);
    if (pst_saver_wait(saver) != PST_OK) fail_msg("%s", pst_error());
    pst_saver_close(saver);
    pst_shard_close(shard[0]);
    pst_shard_close(shard[1]);
    assert_true(size_of(path[0]) > size_of(path[1]));
    close_model(&m);
}

static int setup(void **unused) {
    (void)unused;
    const char *asked = getenv("PST_SEED");
    if (asked) seed = strtoull(asked, NULL, 10);
    printf("seed %" PRIu64 "\n", seed);
    snprintf(root, sizeof root, "/tmp/pst-shard-XXXXXX");
    snprintf(other, sizeof other, "/dev/shm/pst-shard-XXXXXX");
    if (!mkdtemp(root)) return -1;
    if (!mkdtemp(other)) {
        snprintf(other, sizeof other, "/tmp/pst-shard-XXXXXX");
        mkdtemp(other);
    }
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    pst_durable_remove(root);
    pst_durable_remove(other);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),    cmocka_unit_test(test_late),
        cmocka_unit_test(test_read_back), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_full),      cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_two)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
