/* The program as a process that a test can watch, signal and outlive: started by its pid, never
 * found by name. */
#ifndef TESTS_RUN_PROCESS_H
#define TESTS_RUN_PROCESS_H
#include "run/runs.h"
#include <fcntl.h>
#include <signal.h>
#include <time.h>

enum { PROCESS_MAX_ARG = 32, PROCESS_MAX_CHILD = 16 };

typedef struct {
    pid_t pid;
    char log[512]; /* what it says on stdout and stderr */
} process;

static inline double process_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void process_sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* A shell's background ignores them, and so would what is started here. */
__attribute__((constructor)) static inline void process_hears(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
}

/* argv ends with NULL. name: of the log, below the test's folder. */
static inline process process_start(const char *const *argv, const char *name) {
    process p = {0};
    snprintf(p.log, sizeof p.log, "%s/%s.log", run_folder(), name);
    fflush(NULL);
    p.pid = fork();
    if (p.pid) return p;
    int out = open(p.log, O_WRONLY | O_CREAT | O_TRUNC, 0600), in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* `penstock train YAML --runs FOLDER/NAME words...`; words ends with NULL. */
static inline process process_train(const char *yaml, const char *name, const char *const *words) {
    const char *argv[PROCESS_MAX_ARG] = {PST_BINARY, "train"};
    static char file[512], runs[512];
    int n = 2;
    snprintf(file, sizeof file, "%s/%s.yaml", run_folder(), name);
    snprintf(runs, sizeof runs, "%s/%s", run_folder(), name);
    run_write_file(file, yaml);
    argv[n++] = file;
    argv[n++] = "--runs";
    argv[n++] = runs;
    while (*words && n < PROCESS_MAX_ARG - 1) argv[n++] = *words++;
    return process_start(argv, name);
}

/* Exit status, 128 + signal, or -1 when it still runs after `seconds` (it is killed then). */
static inline int process_wait(const process *p, double seconds) {
    int status;
    for (double end = process_now() + seconds; process_now() < end; process_sleep_ms(5))
        if (waitpid(p->pid, &status, WNOHANG) == p->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    return -1;
}

/* Children of a process; how many. */
static inline int process_children(pid_t pid, pid_t child[PROCESS_MAX_CHILD]) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    while (f && n < PROCESS_MAX_CHILD && fscanf(f, "%d", &child[n]) == 1) n++;
    if (f) fclose(f);
    return n;
}

/* 1 when the process is there and no zombie. */
static inline int process_alive(pid_t pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%*d %*[^)]) %c", &state) != 1) state = 'Z';
    fclose(f);
    return state != 'Z';
}

/* Rank of a child that our launcher started, from its environment; -1 unknown. */
static inline int process_rank(pid_t pid) {
    char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        if (!strncmp(text + i, "PMIX_RANK=", 10)) return atoi(text + i + 10);
    return -1;
}

/* Lines of steps in a metrics.jsonl, 0 when it is not there yet. */
static inline int process_steps(const char *folder) {
    char path[1000], line[4096];
    int n = 0;
    snprintf(path, sizeof path, "%.900s/metrics.jsonl", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) n += !strncmp(line, "{\"step\"", 7);
    if (f) fclose(f);
    return n;
}

/* 1 when the run has written `steps` lines within `seconds` and still runs. */
static inline int process_reaches(const process *p, const char *folder, int steps, double seconds) {
    for (double end = process_now() + seconds; process_now() < end; process_sleep_ms(2)) {
        if (!process_alive(p->pid)) return 0;
        if (process_steps(folder) >= steps) return 1;
    }
    return 0;
}

/* What a process has said, in a buffer of this function's own. */
static inline const char *process_said(const process *p) {
    static char text[65536];
    FILE *f = fopen(p->log, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}
#endif
