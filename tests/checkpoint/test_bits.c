/* One flipped bit in any byte of any file of a checkpoint is found, and the file is named; the
 * tensor, too, where one is damaged. PST_ALL_BITS=1: all eight bits of every byte instead of
 * one. */
#include "base/rng.h"
#include "checkpoint/shards.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { PARAMS = 2, LARGEST = 12 };
static char root[64];

static void write_checkpoint(void) {
    static const pst_param param[PARAMS] = {{.name = "wte.weight", .n_dim = 2, .dim = {4, 3}},
                                            {.name = "ln_f.bias", .n_dim = 1, .dim = {5}}};
    static float value[PARAMS][3][LARGEST];
    pst_graph *g;
    assert_int_equal(pst_graph_open("test", 1, &g), PST_OK);
    for (uint32_t i = 0, index; i < PARAMS; i++) {
        assert_int_equal(pst_graph_param(g, &param[i], &index), PST_OK);
        pst_rng_normal(pst_rng_key(1, param[i].name), 0, 1, value[i][0], 3 * LARGEST);
        pst_ckpt_entry entry = {
            .param = &g->param[i], .weight = value[i][0], .state = {value[i][1], value[i][2]}};
        assert_int_equal(
            shard_write(&(shard_place){"c", 3, i, PARAMS}, pst_optim_find("adamw"), &entry, 1),
            PST_OK);
    }
    /* A loss whose last digits could be others and yet mean the same number, and one with an
     * exponent. */
    pst_ckpt_info info = {.step = 3,
                          .next_sample = 96,
                          .validation_loss = 0.1,
                          .best_loss = 1e-30,
                          .optimizer = "adamw"};
    assert_int_equal(pst_ckpt_commit("c", &info, "model: {kind: gpt}\n", g, PARAMS, NULL), PST_OK);
    pst_graph_close(g);
}

/* Reads everything. *tensor: the one that was being read when it failed, or "". */
static pst_status read_all(char tensor[PST_NAME_MAX + 8]) {
    pst_ckpt *c;
    float value[LARGEST];
    *tensor = 0;
    PST_TRY(pst_ckpt_open("c/step-00000003", &c));
    pst_status status = c->n_tensor == 3 * PARAMS ? PST_OK : PST_EINTERNAL;
    for (uint32_t i = 0; status == PST_OK && i < c->n_tensor; i++) {
        status = pst_ckpt_read(c, c->tensor[i].name, value, c->tensor[i].elements);
        if (status != PST_OK) snprintf(tensor, PST_NAME_MAX + 8, "%s", c->tensor[i].name);
    }
    pst_ckpt_close(c);
    return status;
}

static void flip(int fd, off_t at, int bit) {
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void flip_all(const char *name, off_t data) {
    char path[400], tensor[PST_NAME_MAX + 8];
    struct stat st;
    snprintf(path, sizeof path, "c/step-00000003/%s", name);
    int fd = open(path, O_RDWR), all = getenv("PST_ALL_BITS") != NULL;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t at = 0; at < st.st_size; at++)
        for (int k = 0; k < (all ? 8 : 1); k++) {
            int bit = all ? k : (int)(pst_rng_key((uint64_t)at, name) % 8);
            flip(fd, at, bit);
            pst_status status = read_all(tensor);
            if (status != PST_EINPUT || !strstr(pst_error(), name))
                fail_msg("%s, byte %ld, bit %d: status %d: %s", name, (long)at, bit, status,
                         pst_error());
            if (data && at >= data &&
                (!*tensor || !strstr(pst_error(), tensor) || !strstr(pst_error(), "hash")))
                fail_msg("%s, byte %ld, bit %d: no tensor is named: %s", name, (long)at, bit,
                         pst_error());
            flip(fd, at, bit);
        }
    close(fd);
    printf("%s: %ld bytes\n", name, (long)st.st_size);
}

static void test_every_byte(void **state) {
    (void)state;
    char tensor[PST_NAME_MAX + 8];
    int files = 0;
    write_checkpoint();
    assert_int_equal(read_all(tensor), PST_OK);
    DIR *dir = opendir("c/step-00000003");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (*e->d_name == '.') continue;
        flip_all(e->d_name, strstr(e->d_name, ".safetensors") ? 4096 : 0);
        files++;
    }
    closedir(dir);
    assert_int_equal(files, 2 + PARAMS);
    assert_int_equal(read_all(tensor), PST_OK);
}

static int setup(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/dev/shm/pst-bits-XXXXXX");
    if (mkdtemp(root)) return chdir(root);
    snprintf(root, sizeof root, "/tmp/pst-bits-XXXXXX");
    return mkdtemp(root) ? chdir(root) : -1;
}

static int teardown(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return chdir("/") || system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_byte)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
