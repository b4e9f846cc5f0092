/* A training run that is not disturbed until the test does it, and what has to be gone behind
 * it. */
#ifndef TESTS_RUN_JOB_H
#define TESTS_RUN_JOB_H
#include "run/process.h"
#include <dirent.h>

#define MODEL(layers, channels, context)                                                           \
    "name: run\nmodel: {kind: gpt, layers: " #layers ", heads: 4, channels: " #channels            \
    ", context: " #context "}\n"                                                                   \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.[ch]\"]}\n"
#define ENDLESS(every)                                                                             \
    MODEL(3, 32, 24)                                                                               \
    "train: {steps: 1000000, batch: 4, micro_batch: 1, warmup: 0}\ncheckpoint: {every: " #every    \
    "}\n"

enum { LIMIT_S = 15 }; /* promised are 5; this machine may be busy */

static char temporary[600]; /* TMPDIR of what runs here */

/* Shared memory that the ranks have mapped by name: "/dev/shm/..." lines; how many. */
static inline int shared_names(const pid_t *pid, int n, char name[64][256]) {
    int found = 0;
    for (int i = 0; i < n; i++) {
        char path[64], line[1024];
        snprintf(path, sizeof path, "/proc/%d/maps", (int)pid[i]);
        FILE *f = fopen(path, "r");
        while (f && found < 64 && fgets(line, sizeof line, f)) {
            const char *at = strstr(line, "/dev/shm/");
            if (at && !strstr(at, "(deleted)"))
                snprintf(name[found++], 256, "%.*s", (int)strcspn(at, "\n"), at);
        }
        if (f) fclose(f);
    }
    return found;
}

static inline int entries(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (dir) closedir(dir);
    return n;
}

typedef struct {
    process p;
    char folder[600];
    int n;
    pid_t rank[PROCESS_MAX_CHILD]; /* by rank */
    char shared[64][256];
    int n_shared;
} job;

/* A run of n ranks that has made `steps` steps. */
static inline job start_job(const char *yaml, const char *name, int n, int steps) {
    job j = {.n = n};
    char ranks[16];
    pid_t child[PROCESS_MAX_CHILD];
    const char *words[] = {"-q", "-n", ranks, "parallel.threads=1", NULL};
    snprintf(ranks, sizeof ranks, "%d", n);
    snprintf(j.folder, sizeof j.folder, "%s/%s/run", run_folder(), name);
    j.p = process_train(yaml, name, words);
    if (!process_reaches(&j.p, j.folder, steps, 60))
        fail_msg("%s does not come to step %d: %s", name, steps, process_said(&j.p));
    int found = process_children(j.p.pid, child);
    for (int i = 0; i < found; i++) {
        int rank = process_rank(child[i]);
        if (rank >= 0 && rank < n) j.rank[rank] = child[i];
    }
    for (int i = 0; i < n && n > 1; i++) assert_true(j.rank[i] > 0);
    j.n_shared = shared_names(j.rank, n > 1 ? n : 0, j.shared);
    return j;
}

/* Ranks, shared memory and temporary files are gone. */
static inline void check_nothing_left(const job *j) {
    double end = process_now() + LIMIT_S;
    for (int i = 0; i < j->n && j->n > 1; i++) {
        while (process_alive(j->rank[i]) && process_now() < end) process_sleep_ms(10);
        if (process_alive(j->rank[i]))
            fail_msg("rank %d (process %d) is still there", i, (int)j->rank[i]);
    }
    for (int i = 0; i < j->n_shared; i++)
        if (access(j->shared[i], F_OK) == 0) fail_msg("%s is still there", j->shared[i]);
    if (entries(temporary)) fail_msg("something is left in %s", temporary);
}

static inline void check_said(const job *j, const char *what) {
    if (!strstr(process_said(&j->p), what))
        fail_msg("'%s' is not in: %s", what, process_said(&j->p));
}

static inline int job_open(void **state) {
    (void)state;
    snprintf(temporary, sizeof temporary, "%s/tmp", run_folder());
    return mkdir(temporary, 0700) || setenv("TMPDIR", temporary, 1);
}

static inline int job_close(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}
#endif
