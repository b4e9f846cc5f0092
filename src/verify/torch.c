/* Verification against PyTorch: writes what one rank has recorded as files that a script
 * (with_torch.py) reads, and runs it. */
#include "base/file.h"
#include "run/setup.h"
#include "verify/verify.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char pst_verify_torch_py[];
extern const unsigned int pst_verify_torch_py_bytes;

static const double WITHIN = 1e-4; /* also in the script */

typedef struct {
    pst_config *config;
    pst_prepared *p;
    pst_recording *recording;
    double gradients; /* tolerance of gradients */
} torch_run;

/* --- files for the script --------------------------------------------------------------------- */

static pst_status print_script(const void *what, FILE *f) {
    (void)what;
    fwrite(pst_verify_torch_py, 1, pst_verify_torch_py_bytes, f);
    return PST_OK;
}

static pst_status print_graph(const void *what, FILE *f) {
    return pst_graph_print(((const torch_run *)what)->p->whole, f);
}

/* The name in index.txt; NULL: the record is not for the script. */
static const char *kind_of(const pst_record *r) {
    switch (r->kind) {
    case PST_RECORD_DATA: return "data";
    case PST_RECORD_SUM: return "sum";
    case PST_RECORD_SCALAR: return "number";
    case PST_RECORD_STATE: return "state";
    default: return NULL;
    }
}

/* Of each key one record: data is read by several operators. */
static int is_first(const pst_recording *r, size_t i) {
    if (!i) return 1;
    pst_key own = pst_key_of(r->item + i), before = pst_key_of(r->item + i - 1);
    return pst_key_compare(&own, &before) != 0;
}

static pst_status print_data(const void *what, FILE *f) {
    const pst_recording *r = ((const torch_run *)what)->recording;
    for (size_t i = 0; i < r->n; i++) {
        const pst_record *record = r->item[i].record;
        if (kind_of(record) && is_first(r, i))
            fwrite(r->item[i].stored, pst_dtype_bytes((pst_dtype)record->dtype), record->stored, f);
    }
    return PST_OK;
}

static void print_hyper(const pst_config *c, FILE *f) {
    fprintf(f, "hyper optimizer %s\n", c->train.optimizer);
    fprintf(f, "hyper weight_decay %.17g\nhyper clip %.17g\nhyper eps %.17g\n",
            c->train.weight_decay, c->train.clip, c->train.eps);
    fprintf(f, "hyper nesterov %s\n", c->train.nesterov);
    fprintf(f, "hyper beta1 %.17g\nhyper beta2 %.17g\nhyper momentum %.17g\n", c->train.beta1,
            c->train.beta2, c->train.momentum);
}

static pst_status print_index(const void *what, FILE *f) {
    const torch_run *t = what;
    uint64_t offset = 0;
    print_hyper(t->config, f);
    fprintf(f, "hyper within_gradients %.17g\n", t->gradients);
    for (size_t i = 0; i < t->recording->n; i++) {
        const pst_record *r = t->recording->item[i].record;
        if (!kind_of(r) || !is_first(t->recording, i)) continue;
        fprintf(f, "%s %" PRIu64 " %d %s %" PRIu64 " %u %" PRIu64 " %s\n", kind_of(r),
                pst_key_of(t->recording->item + i).step, r->micro == PST_NONE ? -1 : (int)r->micro,
                pst_dtype_name((pst_dtype)r->dtype), r->from, r->stored, offset, r->tensor);
        offset += r->stored * pst_dtype_bytes((pst_dtype)r->dtype);
    }
    return PST_OK;
}

static pst_status write_files(const pst_verifying *v, const torch_run *t) {
    static const struct {
        const char *name;
        pst_file_printer print;
    } files[] = {{"with_torch.py", print_script},
                 {"graph.txt", print_graph},
                 {"index.txt", print_index},
                 {"data.bin", print_data}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PST_VERIFY_PATH];
        snprintf(path, sizeof path, "%.600s/torch/%s", v->folder, files[i].name);
        PST_TRY(pst_file_replace_own(path, files[i].print, t));
    }
    return PST_OK;
}

/* --- Python ----------------------------------------------------------------------------------- */

static char *python(void) {
    char *named = getenv("PST_TORCH_PYTHON");
    static char usual[] = "python3";
    return named && *named ? named : usual;
}

pst_status pst_verify_torch_check(const pst_verifying *v) {
    char text[] = "import torch", option[] = "-c", output[PST_VERIFY_PATH];
    char *argv[] = {python(), option, text, NULL};
    int exit_status = 1;
    snprintf(output, sizeof output, "%.600s/python.log", v->folder);
    pst_status status = pst_verify_process(argv[0], argv, NULL, output, &exit_status);
    remove(output);
    if (status == PST_ENOMEM)
        return pst_fail(PST_EINPUT, "--torch: %s; set PST_TORCH_PYTHON to a Python with PyTorch",
                        pst_error());
    if (status != PST_OK || !exit_status) return status;
    return pst_fail(PST_EINPUT,
                    "--torch: %s has no PyTorch; set PST_TORCH_PYTHON to a Python that has it",
                    python());
}

/* Takes the script's answer into the row. */
static void take_answer(pst_check *check, const json_t *j) {
    const char *first = json_string_value(json_object_get(j, "first")),
               *version = json_string_value(json_object_get(j, "torch")),
               *models = json_string_value(json_object_get(j, "transformers"));
    snprintf(check->detail, sizeof check->detail,
             "%d tensors with PyTorch %.40s%s%.40s; largest relative difference %.1e",
             (int)json_integer_value(json_object_get(j, "compared")), version ? version : "",
             models ? " and transformers " : "", models ? models : "",
             json_number_value(json_object_get(j, "worst")));
    if (first)
        pst_check_fail(check, "%d tensors differ; the first: %.900s",
                       (int)json_integer_value(json_object_get(j, "different")), first);
}

static pst_status run_script(const pst_verifying *v, pst_check *check) {
    char script[PST_VERIFY_PATH], folder[PST_VERIFY_PATH], output[PST_VERIFY_PATH];
    char *argv[] = {python(), script, folder, NULL};
    int exit_status;
    snprintf(folder, sizeof folder, "%.600s/torch", v->folder);
    snprintf(script, sizeof script, "%.600s/torch/with_torch.py", v->folder);
    snprintf(output, sizeof output, "%.600s/torch/out", v->folder);
    PST_TRY(pst_verify_process(argv[0], argv, NULL, output, &exit_status));
    json_t *j = exit_status ? NULL : json_load_file(output, 0, NULL);
    if (j) take_answer(check, j);
    else {
        char said[PST_LAUNCH_SAID];
        pst_verify_last_line(output, said);
        pst_check_fail(check, "the script %.400s ended with status %d: %.400s", script, exit_status,
                       said);
    }
    json_decref(j);
    return PST_OK;
}

/* --- the check -------------------------------------------------------------------------------- */

static pst_status compare(pst_verifying *v, pst_check *check, torch_run *t) {
    pst_shape_keys keys = v->one;
    pst_shape_add(&keys, "train.precision=fp32");
    if (!strcmp(v->config->model.kind, "gpt") || !strcmp(v->config->model.kind, "bert")) {
        pst_shape_add(&keys, "model.dropout=0");
        pst_shape_add(&keys, "model.attention_dropout=0");
    }
    pst_verify_way way = {
        .name = "torch", .title = "for PyTorch", .keys = &keys, .n_rank = 1, .whole = 1};
    PST_TRY(pst_verify_prepare(v, &keys, 1, &t->config, &t->p));
    PST_TRY(pst_verify_record(v, &way, check, &t->recording));
    if (!t->recording) return PST_OK;
    PST_TRY(write_files(v, t));
    return run_script(v, check);
}

pst_status pst_verify_torch(pst_verifying *v) {
    torch_run t = {.gradients = pst_promise_gradients(v->prepared_one->whole, WITHIN)};
    if (!v->options->torch) return PST_OK;
    const pst_compare_options near = {
        .tolerance = WITHIN, .gradients = t.gradients, .sums = t.gradients};
    pst_check *check = pst_check_add_near(&v->table, "one rank, against PyTorch",
                                          "different kernels; fp32, without dropout", &near);
    pst_status status = compare(v, check, &t);
    pst_recording_close(t.recording);
    pst_prepared_close(t.p);
    pst_config_close(t.config);
    return status;
}
