/* Checkpoints: what is read is what was written, by any number of ranks; damage is found and named;
 * a disk that fills up at any operation leaves the old checkpoint or the new one. */
#include "base/folder.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "checkpoint/shards.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { PARAMS = 5, LARGEST = 12 };
static pst_graph *graph;
static float weight[PARAMS][LARGEST], m[PARAMS][LARGEST], v[PARAMS][LARGEST];

/* The contents of step `step`. */
static void fill(uint64_t step) {
    for (int i = 0; i < PARAMS; i++) {
        pst_rng_normal(pst_rng_key(step, graph->param[i].name), 0, 1, weight[i], LARGEST);
        pst_rng_normal(pst_rng_key(step + 1000, graph->param[i].name), 0, 1, m[i], LARGEST);
        pst_rng_normal(pst_rng_key(step + 2000, graph->param[i].name), 0, 1, v[i], LARGEST);
    }
}

static int setup(void **state) {
    (void)state;
    static const pst_param param[PARAMS] = {
        {.name = "wte.weight", .n_dim = 2, .dim = {4, 3}},
        {.name = "h.0.ln_1.bias", .n_dim = 1, .dim = {3}},
        {.name = "h.0.attn.c_attn.weight", .n_dim = 2, .dim = {3, 4}},
        {.name = "ln_f.weight", .n_dim = 1, .dim = {7}},
        {.name = "ln_f.bias", .n_dim = 1, .dim = {1}}};
    if (folder_open(state) || pst_graph_open("test", 1, &graph) != PST_OK) return -1;
    for (uint32_t i = 0, index; i < PARAMS; i++)
        if (pst_graph_param(graph, &param[i], &index) != PST_OK) return -1;
    return 0;
}

static int teardown(void **state) {
    pst_graph_close(graph);
    return folder_close(state);
}

static void shell(const char *command) {
    if (system(command)) fail_msg("%s", command);
}

static pst_ckpt_info info_of(uint64_t step, double loss) {
    return (pst_ckpt_info){.step = step,
                           .next_sample = step * 32,
                           .seed = UINT64_MAX,
                           .model_hash = 1,
                           .data_hash = 2,
                           .validation_loss = loss,
                           .best_loss = INFINITY,
                           .optimizer = "adamw"};
}

/* Parameter i goes to rank i % ranks. */
static pst_status save_info(const pst_ckpt_info *info, uint32_t ranks) {
    const uint64_t step = info->step;
    fill(step);
    for (uint32_t r = 0; r < ranks; r++) {
        pst_ckpt_entry entry[PARAMS];
        uint32_t n = 0;
        for (uint32_t i = r; i < PARAMS; i += ranks)
            entry[n++] = (pst_ckpt_entry){
                .param = &graph->param[i], .weight = weight[i], .state = {m[i], v[i]}};
        pst_status status =
            shard_write(&(shard_place){"c", step, r, ranks}, pst_optim_find("adamw"), entry, n);
        if (status == PST_OK) continue;
        pst_ckpt_abandon("c", step);
        return status;
    }
    return pst_ckpt_commit("c", info, "model: {kind: gpt}\n", graph, ranks, NULL);
}

static pst_status save(uint64_t step, uint32_t ranks, double loss) {
    const pst_ckpt_info info = info_of(step, loss);
    return save_info(&info, ranks);
}

/* The newest checkpoint is complete and of step `step`. */
static void expect_step(uint64_t step) {
    char *folder;
    pst_ckpt *c;
    float a[LARGEST], b[LARGEST], d[LARGEST];
    assert_int_equal(pst_ckpt_find(".", &folder), PST_OK);
    if (access("c/index.json", F_OK) == 0) fail();
    if (pst_ckpt_open(folder, &c) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(c->info.step, step);
    assert_int_equal(c->info.next_sample, step * 32);
    assert_true(c->info.seed == UINT64_MAX && c->info.model_hash == 1 && c->info.data_hash == 2);
    assert_string_equal(c->config, "model: {kind: gpt}\n");
    assert_int_equal(c->n_tensor, 3 * PARAMS);
    fill(step);
    for (int i = 0; i < PARAMS; i++) {
        const pst_param *p = &graph->param[i];
        size_t bytes = pst_param_elements(p) * sizeof(float);
        void *const into[2] = {b, d};
        assert_int_equal(pst_ckpt_read_param(c, p, pst_optim_find("adamw"), a, into), PST_OK);
        assert_memory_equal(a, weight[i], bytes);
        assert_memory_equal(b, m[i], bytes);
        assert_memory_equal(d, v[i], bytes);
    }
    pst_ckpt_close(c);
    free(folder);
}

/* Folders below checkpoints/, hidden ones too, as one word each. */
static const char *listing(void) {
    static char text[512];
    FILE *f = popen("ls -A checkpoints | tr '\\n' ' '", "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    pclose(f);
    return text;
}

static void fresh(void) {
    shell("rm -rf checkpoints c && mkdir checkpoints && ln -s checkpoints c");
}

static void test_any_ranks(void **state) {
    (void)state;
    for (uint32_t ranks = 1; ranks <= 7; ranks++) { /* ranks without parameters among them */
        fresh();
        assert_int_equal(save(ranks, ranks, NAN), PST_OK);
        expect_step(ranks);
    }
    assert_string_equal(listing(), "step-00000007 ");
}

static void test_keep(void **state) {
    (void)state;
    static const double loss[] = {3, 2, 1.5, 1.75, NAN, 1.5, 4};
    fresh();
    shell("mkdir checkpoints/.tmp-step-00000002 checkpoints/.tmp-step-00000099 "
          "checkpoints/step-00000088");
    for (uint64_t i = 0; i < 7; i++) {
        assert_int_equal(save(i + 1, 2, loss[i]), PST_OK);
        pst_ckpt_prune("c", &(pst_ckpt_kept){2, 0, i + 1, NULL});
    }
    assert_string_equal(
        listing(),
        ".tmp-step-00000099 best step-00000003 step-00000006 step-00000007 step-00000088 ");
    expect_step(7);
    char *folder;
    pst_ckpt *c;
    assert_int_equal(pst_ckpt_find("checkpoints/best", &folder), PST_OK);
    assert_int_equal(pst_ckpt_open(folder, &c), PST_OK);
    assert_int_equal(c->info.step, 3);
    assert_true(c->info.validation_loss == 1.5 && isnan(c->info.best_loss));
    pst_ckpt_close(c);
    free(folder);
    pst_ckpt_clean("c");
    assert_int_equal(save(4, 1, 9), PST_OK); /* the run went back: the one just written stays */
    pst_ckpt_prune("c", &(pst_ckpt_kept){1, 0, 4, NULL});
    assert_string_equal(listing(), "best step-00000003 step-00000004 step-00000007 step-00000088 ");
    assert_int_equal(save(7, 3, 9), PST_OK); /* replaced */
    expect_step(7);
    pst_ckpt_prune("c", &(pst_ckpt_kept){0, 0, 7, NULL});
    assert_string_equal(listing(), "best step-00000003 step-00000004 step-00000007 step-00000088 ");
}

/* By the loss on a set: that of checkpoints of another set, or of none, does not count. */
static void test_best_of_a_set(void **state) {
    (void)state;
    static const char *const set[] = {"", "code", "other", "code"};
    static const double loss[] = {0, 2, 1, 3};
    fresh();
    for (uint32_t i = 0; i < 4; i++) {
        pst_ckpt_info info = info_of(i + 1, 5 - i);
        snprintf(info.best_of, sizeof info.best_of, "%s", set[i]);
        info.chosen_loss = *set[i] ? loss[i] : NAN;
        assert_int_equal(save_info(&info, 1), PST_OK);
    }
    pst_ckpt_prune("c", &(pst_ckpt_kept){1, 0, 4, "code"});
    assert_string_equal(listing(), "best step-00000002 step-00000004 ");
    pst_ckpt *c = NULL;
    assert_int_equal(pst_ckpt_open("c/best", &c), PST_OK);
    assert_true(c->info.step == 2 && c->info.chosen_loss == 2);
    assert_string_equal(c->info.best_of, "code");
    pst_ckpt_close(c);
}

/* Multiples of `every` stay, beside the newest and the best. */
static void test_keep_every(void **state) {
    (void)state;
    fresh();
    for (uint64_t i = 1; i <= 8; i++) {
        assert_int_equal(save(i, 2, i == 5 ? 1 : 2), PST_OK);
        pst_ckpt_prune("c", &(pst_ckpt_kept){1, 3, i, NULL});
    }
    assert_string_equal(listing(), "best step-00000003 step-00000005 step-00000006 step-00000008 ");
}

/* Whatever operation fails while a checkpoint is written: the sentence, no temporary folder, the
 * old or the new one. */
static void test_full_disk(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++) { /* a later step; the same step again */
        uint64_t n = 1, failures = 0, kept_new = 0;
        fresh();
        for (;; n++) {
            if (!strstr(listing(), "step-00000001") || strstr(listing(), "step-00000002")) {
                fresh();
                assert_int_equal(save(1, 3, 2), PST_OK);
            }
            uint64_t step = same ? 1 : 2;
            pst_durable_fail_after(n);
            pst_status status = save(step, 2, 1);
            pst_durable_fail_after(0);
            if (status == PST_OK) break;
            failures++;
            assert_int_equal(status, PST_ENOMEM);
            assert_non_null(strstr(pst_error(), "No space left on device"));
            assert_non_null(strstr(pst_error(), " c"));
            int is_new = strstr(listing(), "step-00000002") != NULL;
            kept_new += (uint64_t)is_new;
            assert_null(strstr(listing(), ".tmp"));
            expect_step(is_new ? 2 : 1);
        }
        expect_step(same ? 1 : 2);
        assert_true(failures == n - 1 && failures > 20 && kept_new <= 1);
    }
}

static void test_unwritable(void **state) {
    (void)state;
    fresh();
    assert_int_equal(save(1, 1, 2), PST_OK);
    pst_ckpt_entry entry = {.param = &graph->param[0], .weight = weight[0], .state = {NULL, NULL}};
    assert_int_equal(shard_write(&(shard_place){"no/where", 1, 0, 1}, NULL, &entry, 1), PST_ENOMEM);
    assert_non_null(strstr(pst_error(), "no/where: No such file"));
    pst_ckpt_info info = info_of(2, 1);
    /* nobody wrote */
    assert_int_equal(pst_ckpt_commit("c", &info, "", graph, 2, NULL), PST_ENOMEM);
    assert_non_null(strstr(pst_error(), "rank-0-of-2.safetensors is missing"));
    assert_int_equal(shard_write(&(shard_place){"c", 2, 0, 1}, NULL, &entry, 1), PST_OK);
    assert_int_equal(pst_ckpt_commit("c", &info, "", graph, 1, NULL), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "no rank has stored tensor wte.weight.m"));
    assert_int_equal(shard_write(&(shard_place){"c", 2, 0, 2}, NULL, &entry, 1), PST_OK);
    assert_int_equal(shard_write(&(shard_place){"c", 2, 1, 2}, NULL, &entry, 1), PST_OK);
    assert_int_equal(pst_ckpt_commit("c", &info, "", NULL, 2, NULL), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "two ranks have stored tensor wte.weight"));
    assert_string_equal(listing(), "step-00000001 ");
    expect_step(1);
    if (geteuid() == 0) return; /* root writes everywhere */
    shell("chmod 555 checkpoints");
    assert_int_equal(save(3, 1, 2), PST_ENOMEM);
    shell("chmod 755 checkpoints");
    expect_step(1);
}

/* Opens a copy of the checkpoint in good/ after `damage`, a command run in its folder, was done to
 * it. */
static void expect_damage(const char *damage, const char *sentence) {
    pst_ckpt *c = NULL;
    char *folder = NULL;
    fresh();
    shell("cp -r good/. checkpoints");
    char command[512];
    snprintf(command, sizeof command, "cd -P c/step-00000001 && %s", damage);
    shell(command);
    pst_status status = pst_ckpt_find("c", &folder);
    if (status == PST_OK) status = pst_ckpt_open(folder, &c);
    float value[LARGEST];
    for (uint32_t i = 0; status == PST_OK && i < c->n_tensor; i++)
        status = pst_ckpt_read(c, c->tensor[i].name, value, c->tensor[i].elements);
    assert_int_equal(status, PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    pst_ckpt_close(c);
    free(folder);
}

static void test_damage(void **state) {
    (void)state;
    fresh();
    assert_int_equal(save(1, 2, 2), PST_OK);
    shell("cp -r checkpoints good");
    expect_damage("rm -r ../step-00000001", "c contains no complete checkpoint");
    expect_damage("rm ../../c", "no checkpoint: c: No such file or directory; expected");
    expect_damage("rm index.json", "c contains no complete checkpoint");
    expect_damage("rm rank-1-of-2.safetensors",
                  "rank-1-of-2.safetensors: cannot read: No such file");
    expect_damage("rm run.yaml", "run.yaml: cannot read");
    expect_damage("echo >> run.yaml", "run.yaml: the file is damaged or was edited");
    expect_damage("truncate -s 100 index.json", "index.json:7:4: the file is truncated or damaged");
    expect_damage("echo '{}' > index.json", "index.json: not the index of a checkpoint");
    expect_damage("sed -i 's/\"version\": 3/\"version\": 5/' index.json",
                  "checkpoint version 5 is not supported; this program reads versions 3 and 4");
    expect_damage("sed -i 's/\"step\": 1,/\"step\": 7,/' index.json",
                  "index.json: the file is damaged or was edited");
    expect_damage("sed -i 's/\"file\": \"rank-0-of/\"file\": \"..\\/rank-0-of/' index.json",
                  "is in none of the listed files");
    expect_damage("sed -i 's/\"name\": \"rank-0-of/\"name\": \"..\\/rank-0-of/' index.json",
                  "files[0] is not a file name");
    expect_damage("sed -i 's/\"header_xxh3\": \"/&x/' index.json",
                  "rank-0-of-2.safetensors: header_xxh3 is missing");
    expect_damage("sed -i 's/\\(xxh3:ln_f.bias.m\":\"\\)./\\1X/' rank-0-of-2.safetensors",
                  "the header is damaged");
    expect_damage("truncate -s -1 rank-0-of-2.safetensors", "rank-0-of-2.safetensors: truncated");
    expect_damage("cp rank-1-of-2.safetensors rank-0-of-2.safetensors",
                  "rank-0-of-2.safetensors: the header is damaged");
    expect_damage("f=rank-0-of-2.safetensors; printf x | dd of=$f bs=1 seek=$(($(stat -c %s $f) - "
                  "140)) conv=notrunc "
                  "2>/dev/null",
                  "is damaged: its hash is");
}

static void test_mismatch(void **state) {
    (void)state;
    fresh();
    assert_int_equal(save(1, 2, 2), PST_OK);
    pst_ckpt *c;
    float a[LARGEST], b[LARGEST], d[LARGEST];
    void *const into[2] = {b, d};
    assert_int_equal(pst_ckpt_open("c/step-00000001", &c), PST_OK);
    pst_param other = {.name = "wte.weight", .n_dim = 2, .dim = {3, 4}},
              none = {.name = "x", .n_dim = 1, .dim = {1}};
    assert_int_equal(pst_ckpt_read_param(c, &other, NULL, a, into), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "the shape of tensor wte.weight differs"));
    assert_int_equal(pst_ckpt_read_param(c, &none, NULL, a, into), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "contains no tensor x"));
    assert_int_equal(pst_ckpt_read(c, "wte.weight", a, 11), PST_EINPUT);
    assert_int_equal(pst_ckpt_read_param(c, &graph->param[0], pst_optim_find("sgd"), a, into),
                     PST_EINPUT);
    assert_non_null(strstr(pst_error(), "the state of optimizer adamw, not of sgd"));
    pst_ckpt_close(c);
    FILE *null = fopen("/dev/null", "w");
    assert_int_equal(pst_ckpt_print("c", null), PST_OK);
    fclose(null);
}

/* The hash of the weights follows values, names and shapes, and no order of parameters. */
static void test_weights_hash(void **state) {
    (void)state;
    uint64_t hash[PARAMS], mirror[PARAMS], a, b;
    pst_graph *backwards;
    assert_int_equal(pst_graph_open("other", 1, &backwards), PST_OK);
    fill(1);
    for (uint32_t i = 0, index; i < PARAMS; i++) {
        hash[i] = pst_weights_hash_one(&graph->param[i], weight[i]);
        assert_int_equal(pst_graph_param(backwards, &graph->param[PARAMS - 1 - i], &index), PST_OK);
        mirror[PARAMS - 1 - i] = hash[i];
    }
    assert_int_equal(pst_weights_hash(graph, hash, &a), PST_OK);
    assert_int_equal(pst_weights_hash(backwards, mirror, &b), PST_OK);
    assert_true(a == b);
    mirror[0]++;
    assert_int_equal(pst_weights_hash(backwards, mirror, &b), PST_OK);
    assert_true(a != b);
    pst_graph_close(backwards);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_ranks),     cmocka_unit_test(test_keep),
        cmocka_unit_test(test_best_of_a_set), cmocka_unit_test(test_keep_every),
        cmocka_unit_test(test_full_disk),     cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_damage),        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_weights_hash)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
