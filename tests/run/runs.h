/* Runs small trainings for tests, in this process or through the program, and
 * reads what they wrote. */
#ifndef TESTS_RUN_RUNS_H
#define TESTS_RUN_RUNS_H
#include "penstock/run.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_MAX_STEPS = 256 };

typedef struct {
    int exit_status, steps;
    char loss[RUN_MAX_STEPS][40]; /* as text with 17 digits: equal text is equal bits */
    double value[RUN_MAX_STEPS], norm[RUN_MAX_STEPS];
    char hash[20], folder[512];
    double validation;
    uint64_t validation_tokens;                     /* of the last one */
    uint64_t peak[16], predicted[16], resident[16]; /* of the last step */
    int n_rank;
} run_result;

/* A folder of this test's own below the build folder's tests, removed by run_folder_remove. */
static inline const char *run_folder(void) {
    static char path[] = "/tmp/penstock-test-XXXXXX";
    static int made;
    if (!made) made = mkdtemp(path) != NULL;
    return path;
}

static inline void run_folder_remove(void) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", run_folder());
    if (system(command) != 0) fprintf(stderr, "cannot remove %s\n", run_folder());
}

static inline void run_read_line(const json_t *j, run_result *r) {
    const char *event = json_string_value(json_object_get(j, "event"));
    if (!event && r->steps < RUN_MAX_STEPS) {
        r->value[r->steps] = json_real_value(json_object_get(j, "loss"));
        r->norm[r->steps] = json_real_value(json_object_get(j, "grad_norm"));
        snprintf(r->loss[r->steps++], 40, "%.17g", json_real_value(json_object_get(j, "loss")));
        const json_t *peak = json_object_get(j, "peak_bytes"),
                     *predicted = json_object_get(j, "predicted_peak_bytes");
        const json_t *resident = json_object_get(j, "resident_bytes");
        r->n_rank = (int)json_array_size(peak);
        for (int k = 0; k < r->n_rank && k < 16; k++) {
            r->peak[k] = (uint64_t)json_integer_value(json_array_get(peak, (size_t)k));
            r->resident[k] = (uint64_t)json_integer_value(json_array_get(resident, (size_t)k));
            r->predicted[k] = (uint64_t)json_integer_value(json_array_get(predicted, (size_t)k));
        }
    } else if (event && !strcmp(event, "validation")) {
        r->validation = json_real_value(json_object_get(j, "loss"));
        r->validation_tokens = (uint64_t)json_integer_value(json_object_get(j, "tokens"));
    } else if (event && !strcmp(event, "end")) {
        snprintf(r->hash, sizeof r->hash, "%s",
                 json_string_value(json_object_get(j, "weights_xxh64")));
    }
}

static inline void run_read(run_result *r) {
    char path[600], line[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        if (j) run_read_line(j, r);
        json_decref(j);
    }
    if (f) fclose(f);
}

static inline void run_write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

/* A second run of one name gets another folder, so its result would be read from the first. */
static inline int run_is_new(const run_result *r, const char *name) {
    const int found = access(r->folder, F_OK) == 0;
    if (found) fprintf(stderr, "%s: two runs of a test have this name\n", name);
    return !found;
}

/* Trains in this process (all ranks over `self`). name: of the run, used once; resume: folder or
 * "". */
static inline run_result run_here(const char *yaml, const char *name, int ranks, const char *resume,
                                  const char *const *override, size_t n_override) {
    run_result r = {.exit_status = 5};
    char runs[300];
    pst_config *c = NULL;
    snprintf(runs, sizeof runs, "%s/%s", run_folder(), name);
    snprintf(r.folder, sizeof r.folder, "%s/run", runs);
    if (!(resume && *resume) && !run_is_new(&r, name)) return r;
    pst_train_options o = {
        .size = sizeof o, .ranks = ranks, .runs = runs, .resume = resume, .quiet = 1};
    pst_status status = pst_config_parse(yaml, "test.yaml", override, n_override, &c);
    if (status == PST_OK) status = pst_train(c, &o);
    if (status != PST_OK) fprintf(stderr, "%s: %s\n", name, pst_error());
    r.exit_status = pst_status_exit(status);
    if (resume && *resume) snprintf(r.folder, sizeof r.folder, "%s", resume);
    run_read(&r);
    pst_config_close(c);
    return r;
}

/* Runs `PENSTOCK train FILE <arguments>` below the test's folder; output goes to NAME.log there. */
static inline run_result run_program(const char *binary, const char *yaml, const char *name,
                                     const char *arguments) {
    run_result r = {.exit_status = -1};
    char file[400], command[4000];
    snprintf(r.folder, sizeof r.folder, "%s/%s/run", run_folder(), name);
    if (!strstr(arguments, "--resume") && !run_is_new(&r, name)) return r;
    snprintf(file, sizeof file, "%s/%s.yaml", run_folder(), name);
    run_write_file(file, yaml);
    snprintf(command, sizeof command, "'%s' train '%s' --runs '%s/%s' %s >'%s/%s.log' 2>&1", binary,
             file, run_folder(), name, arguments, run_folder(), name);
    int status = system(command);
    r.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    run_read(&r);
    return r;
}
#endif
