/* test: label=full timeout=120
 * BERT beside transformers, from files that tests/parity/bert.py has written: the weights of
 * save_pretrained in, and out again with equal bytes; logits within 1e-4; 20 AdamW steps, whose
 * loss is within 5e-6, and the gradients of steps 1 and 20 within 1e-5 and 1e-4 (relative L2 per
 * parameter). Started by tests/parity/test_bert.sh; skipped without the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"
#include "comm/world/world.h"
#include "group/group.h"
#include "run/resume.h"
#include "skip.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, B = 4, T = 24, P = 4, V = 60 };

typedef struct {
    int32_t tokens[B * T], lengths[B], types[B * T], positions[B * P], targets[B * P], next[B];
} batch;

static const char *folder;
static batch batches[STEPS];
static double expected_loss[STEPS], expected_norm[STEPS];
static float logits[B * T * V], next_logits[B * 2];

static FILE *open_file(const char *name, const char *mode) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, mode);
    if (!f) fail_msg("%s is missing", path);
    return f;
}

static int read_files(void **state) {
    (void)state;
    FILE *f = open_file("losses.txt", "r");
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(fscanf(f, "%*d %lf %lf", &expected_loss[i], &expected_norm[i]), 2);
    fclose(f);
    f = open_file("data.i32", "rb");
    assert_int_equal(fread(batches, sizeof batches, 1, f), 1);
    fclose(f);
    f = open_file("logits.f32", "rb");
    assert_int_equal(fread(logits, sizeof logits, 1, f), 1);
    assert_int_equal(fread(next_logits, sizeof next_logits, 1, f), 1);
    fclose(f);
    return 0;
}

/* --- a job ------------------------------------------------------------------------------------ */

typedef struct {
    pst_config *config;
    pst_prepared *p;
    pst_group *group;
} job;

static job open_job(int infer, uint32_t ranks, int micro_batch, const char *more) {
    char yaml[600], source[700];
    job j = {0};
    pst_world *world;
    snprintf(yaml, sizeof yaml,
             "model: {kind: bert, layers: 2, heads: 4, channels: 32, context: 24, vocabulary: 60, "
             "max_predictions: 4, next_sentence: true}\n"
             "data: {kind: custom, paths: [none]}\n"
             "train: {steps: 20, batch: 4, micro_batch: %d, clip: 0}\nparallel: {%s}\n",
             micro_batch, more);
    if (pst_config_parse(yaml, "parity.yaml", NULL, 0, &j.config)) fail_msg("%s", pst_error());
    pst_prepare_options options = {.n_rank = ranks,
                                   .threads = 1,
                                   .isa = pst_cpu_isa(),
                                   .n_eval_micro = infer ? 0 : 1,
                                   .infer = infer};
    if (pst_prepare(j.config, &options, &j.p) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(pst_world_single.open(&world), PST_OK);
    assert_int_equal(pst_group_open(world, "self", ranks, &j.group), PST_OK);
    assert_int_equal(pst_group_open_ranks(j.group, j.p, !infer), PST_OK);
    snprintf(source, sizeof source, "%s/hf", folder);
    for (uint32_t i = 0; i < ranks; i++) {
        if (!infer) assert_int_equal(pst_rank_init_weights(j.group->local[i]), PST_OK);
        if (pst_resume_read_hf(j.group->local[i], source) != PST_OK) fail_msg("%s", pst_error());
    }
    return j;
}

static void close_job(job *j) {
    pst_group_close(j->group, 0);
    pst_prepared_close(j->p);
    pst_config_close(j->config);
}

static const int32_t *field(const batch *x, const char *name, uint64_t *each) {
    const struct {
        const char *name;
        const int32_t *data;
        uint64_t each;
    } fields[] = {{"tokens", x->tokens, T},   {"lengths", x->lengths, 1},
                  {"types", x->types, T},     {"positions", x->positions, P},
                  {"targets", x->targets, P}, {"next_sentence", x->next, 1}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(name, fields[i].name)) {
            *each = fields[i].each;
            return fields[i].data;
        }
    fail_msg("the model reads %s", name);
    return NULL;
}

/* Samples from `first` on, as many as the rank computes. */
static void fill(pst_rank *r, const batch *x, uint32_t first, uint32_t micro_batch) {
    const pst_graph *g = r->p->graph;
    r->targets = 0;
    for (int i = 0; i < B * P; i++) r->targets += x->targets[i] >= 0;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        uint64_t each = 0;
        if (g->tensor[t].role != PST_TENSOR_DATA) continue;
        const int32_t *from = field(x, g->tensor[t].name, &each);
        for (uint32_t b = 0; b < (micro_batch > 1 ? B : 1u); b++) {
            int32_t *to = pst_rank_data(r, t, b / micro_batch);
            if (to)
                memcpy(to + b % micro_batch * each, from + (first + b) * each, each * sizeof *to);
        }
    }
}

/* --- logits ----------------------------------------------------------------------------------- */

static double apart(const float *a, const float *b, uint64_t n) {
    double most = 0;
    for (uint64_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - b[i]));
    return most;
}

/* Sample after sample; of positions that are no padding. */
static void test_logits(void **state) {
    (void)state;
    job j = open_job(1, 1, 1, "");
    pst_rank *r = j.group->local[0];
    const pst_graph *g = j.p->graph;
    const uint32_t tokens = pst_graph_find_tensor(g, "lm_head.out"),
                   next = pst_graph_find_tensor(g, "nsp.out");
    double most = 0, of_next = 0;
    assert_int_equal(g->micro_batch, 1);
    for (uint32_t b = 0; b < B; b++) {
        fill(r, &batches[0], b, 1);
        assert_int_equal(pst_group_run(j.group, 0), PST_OK);
        most = fmax(most, apart(pst_rank_output(r, tokens, 0), logits + b * T * V,
                                (uint64_t)batches[0].lengths[b] * V));
        of_next = fmax(of_next, apart(pst_rank_output(r, next, 0), next_logits + 2 * b, 2));
    }
    printf("logits differ by %.2e, those of the next sentence by %.2e\n", most, of_next);
    assert_true(most <= 1e-4 && of_next <= 1e-4);
    close_job(&j);
}

/* --- weights out ------------------------------------------------------------------------------ */

static pst_status give(void *arg, const pst_param *param, float *out) {
    float **weight = ((void **)arg)[0];
    const pst_graph *g = ((void **)arg)[1];
    memcpy(out, weight[param - g->param], pst_param_elements(param) * sizeof *out);
    return PST_OK;
}

static void test_out_again(void **state) {
    (void)state;
    char source[700], out[700], path[800];
    pst_model_config config;
    pst_graph *g;
    pst_safetensors_file *before, *after;
    snprintf(source, sizeof source, "%s/hf", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    if (pst_hf_config(source, &config) != PST_OK) fail_msg("%s", pst_error());
    assert_true(config.bert.next_sentence && config.bert.token_types == 2);
    config.micro_batch = 1;
    assert_int_equal(pst_model_bert.build(&config, &g), PST_OK);
    float **weight = calloc(g->n_param, sizeof *weight);
    for (uint32_t i = 0; i < g->n_param; i++)
        weight[i] = calloc(pst_param_elements(&g->param[i]), sizeof **weight);
    const pst_hf_weights into = {.held = g, .weight = weight};
    if (pst_hf_import(source, &pst_model_bert, g, &into) != PST_OK) fail_msg("%s", pst_error());
    void *arg[] = {weight, g};
    const pst_hf_model written = {&config, &pst_model_bert, g, -1};
    if (pst_hf_export(out, &written, give, arg)) fail_msg("%s", pst_error());
    snprintf(path, sizeof path, "%s/model.safetensors", source);
    assert_int_equal(pst_safetensors_open(path, &before), PST_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    assert_int_equal(pst_safetensors_open(path, &after), PST_OK);
    assert_int_equal(before->n_entry, after->n_entry);
    for (uint32_t i = 0; i < before->n_entry; i++) {
        const pst_safetensors_entry *a = &before->entry[i], *b = &after->entry[i];
        assert_string_equal(a->name, b->name);
        assert_true(a->bytes == b->bytes && a->n_dim == b->n_dim &&
                    !memcmp(a->dim, b->dim, sizeof a->dim));
        uint8_t *x = malloc(a->bytes), *y = malloc(a->bytes);
        assert_int_equal(pst_safetensors_read_bytes(before, a, 0, x, a->bytes), PST_OK);
        assert_int_equal(pst_safetensors_read_bytes(after, b, 0, y, a->bytes), PST_OK);
        assert_memory_equal(x, y, a->bytes);
        free(x);
        free(y);
    }
    pst_safetensors_close(before);
    pst_safetensors_close(after);
    for (uint32_t i = 0; i < g->n_param; i++) free(weight[i]);
    free(weight);
    pst_graph_close(g);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Largest relative L2 distance of any parameter that this rank owns whole. */
static double gradient_distance(const pst_rank *r, const char *name) {
    const pst_graph *g = r->p->graph;
    pst_safetensors_file *file;
    char path[700], buffer[PST_NAME_MAX];
    double worst = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(pst_safetensors_open(path, &file), PST_OK);
    for (uint32_t i = 0; i < g->n_param; i++) {
        const uint64_t n = pst_param_elements(g->param + i);
        if (!pst_rank_owns(r, i)) continue;
        float *want = malloc(n * sizeof *want), *got = pst_rank_grad(r, i, 0);
        uint64_t filled = 0;
        const char *own;
        for (uint32_t k = 0; (own = pst_model_bert.hf_part(g->param + i, k, buffer)); k++) {
            const pst_safetensors_entry *e = pst_safetensors_find(file, own);
            if (!e) fail_msg("%s is missing", own);
            assert_int_equal(
                pst_safetensors_read_f32(file, e, want + filled, e->bytes / sizeof *want, 0),
                PST_OK);
            filled += e->bytes / sizeof *want;
        }
        assert_int_equal(filled, n);
        double difference = 0, length = 0;
        for (uint64_t k = 0; k < n; k++) {
            difference += ((double)got[k] - want[k]) * ((double)got[k] - want[k]);
            length += (double)want[k] * want[k];
        }
        free(want);
        if (sqrt(difference / length) > worst) worst = sqrt(difference / length);
    }
    pst_safetensors_close(file);
    return worst;
}

static void check_steps(uint32_t ranks, uint32_t micro_batch, const char *more) {
    job j = open_job(0, ranks, (int)micro_batch, more);
    double loss = 0, norm = 0, first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < ranks; i++) {
            fill(j.group->local[i], &batches[step], 0, micro_batch);
            j.group->local[i]->hyper =
                (pst_optim_hyper){.lr = 1e-3f,
                                  .decay = 0.1f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.95f,
                                  .eps = 1e-8f,
                                  .t = (uint64_t)step + 1,
                                  .correction1 = (float)(1 - pow(0.9, step + 1)),
                                  .correction2 = (float)(1 - pow(0.95, step + 1))};
        }
        assert_int_equal(pst_group_run(j.group, 1), PST_OK);
        const pst_rank *r = j.group->local[0];
        loss = fmax(loss, fabs(r->loss_sum / (double)r->targets - expected_loss[step]));
        norm = fmax(norm, fabs(r->grad_norm / expected_norm[step] - 1));
        for (uint32_t i = 0; i < ranks && step == 0; i++)
            first = fmax(first, gradient_distance(j.group->local[i], "grad_step_1.safetensors"));
        for (uint32_t i = 0; i < ranks && step == STEPS - 1; i++)
            last = fmax(last, gradient_distance(j.group->local[i], "grad_step_20.safetensors"));
    }
    printf("%u ranks, micro-batch %u: loss differs by %.2e, norm by %.2e, gradients by %.2e and "
           "%.2e\n",
           ranks, micro_batch, loss, norm, first, last);
    close_job(&j);
    assert_true(loss <= 5e-6 && norm <= 1e-4 && first <= 1e-5 && last <= 1e-4);
}

static void test_one_rank(void **state) {
    (void)state;
    check_steps(1, 4, "");
}

static void test_pipeline(void **state) {
    (void)state;
    check_steps(3, 2, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits), cmocka_unit_test(test_out_again),
        cmocka_unit_test(test_one_rank), cmocka_unit_test(test_pipeline)};
    folder = getenv("PENSTOCK_BERT_FIXTURE");
    if (!folder) return SKIPPED("tests/parity/test_bert.sh starts it, where transformers is");
    return cmocka_run_group_tests(tests, read_files, NULL);
}
