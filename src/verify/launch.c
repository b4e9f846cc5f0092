/* See launch.h. */
#include "verify/launch.h"
#include "base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_BYTES = 1024 };

/* --- arguments and environment ---------------------------------------------------------------- */

typedef struct {
    char **item;
    size_t n, room;
} list;

static int append(list *l, const char *text) {
    if (l->n + 1 >= l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        char **more = realloc(l->item, room * sizeof *more);
        if (!more) return 0;
        l->item = more;
        l->room = room;
    }
    l->item[l->n] = strdup(text);
    l->item[l->n + 1] = NULL;
    return l->item[l->n++] != NULL;
}

static void release(list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->item[i]);
    free(l->item);
}

static int arguments(const pst_verify_run *run, list *l) {
    char runs[PATH_BYTES], ranks[16];
    snprintf(runs, sizeof runs, "%s/%s", run->folder, run->name);
    snprintf(ranks, sizeof ranks, "%u", run->n_rank);
    int good = append(l, "penstock") && append(l, "train") && append(l, run->file);
    for (size_t i = 0; good && i < run->n_override; i++) good = append(l, run->override[i]);
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; good && run->keys[k] && i < run->keys[k]->n; i++)
            good = append(l, run->keys[k]->text[i]);
    good = good && append(l, "-n") && append(l, ranks) && append(l, "--runs") && append(l, runs) &&
           append(l, "-q") && append(l, "--canary");
    if (good && run->resume) good = append(l, "--resume") && append(l, run->resume);
    return good;
}

static int is_ours(const char *variable) {
    static const char *const ours[] = {"PENSTOCK_RECORD", "PENSTOCK_KERNELS=", "PENSTOCK_FAULT="};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(variable, ours[i], strlen(ours[i]))) return 1;
    return 0;
}

static int environment(const pst_verify_run *run, list *l) {
    char text[PATH_BYTES + 64];
    int good = 1;
    for (char **at = environ; good && *at; at++)
        if (!is_ours(*at)) good = append(l, *at);
    snprintf(text, sizeof text, "PENSTOCK_RECORD=%s/%s/record", run->folder, run->name);
    good = good && append(l, text);
    if (good && run->whole) good = append(l, "PENSTOCK_RECORD_ELEMENTS=1000000000000");
    if (good && run->repeat) good = append(l, "PENSTOCK_RECORD_REPEAT=1");
    if (good && run->reference) good = append(l, "PENSTOCK_KERNELS=ref");
    const char *fault = run->takes_fault ? getenv("PENSTOCK_FAULT") : NULL;
    if (run->fault) fault = run->fault;
    snprintf(text, sizeof text, "PENSTOCK_FAULT=%s", fault ? fault : "");
    return good && append(l, text);
}

/* --- the process ------------------------------------------------------------------------------ */

void pst_verify_last_line(const char *path, char said[PST_LAUNCH_SAID]) {
    char line[PST_LAUNCH_SAID];
    FILE *f = fopen(path, "r");
    int named = 0;
    *said = 0;
    while (f && fgets(line, sizeof line, f)) {
        int names = !strncmp(line, "penstock: ", 10);
        line[strcspn(line, "\n")] = 0;
        if (!*line || (named && !names) || strstr(line, "resume with: ")) continue;
        named |= names;
        snprintf(said, PST_LAUNCH_SAID, "%s", line + (names ? 10 : 0));
    }
    if (f) fclose(f);
}

static pst_status spawn(const char *program, char *const *argv, char *const *env,
                        const char *output, pid_t *pid) {
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return pst_fail(PST_ENOMEM, "no memory to start %s", program);
    int error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_APPEND,
                                                 0666);
    if (!error) error = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!error) error = posix_spawnp(pid, program, &files, NULL, argv, env ? env : environ);
    posix_spawn_file_actions_destroy(&files);
    return error ? pst_fail(PST_ENOMEM, "cannot start %s: %s", program, strerror(error)) : PST_OK;
}

/* The signal that asked this process to end; 0: none. */
static volatile sig_atomic_t asked;
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ENDING = sizeof ending / sizeof *ending };
static struct sigaction before[N_ENDING];

static void note(int signal) { asked = signal; }

void pst_verify_signals_open(void) {
    struct sigaction action = {.sa_handler = note};
    asked = 0;
    for (int i = 0; i < N_ENDING; i++) {
        sigaction(ending[i], NULL, before + i);
        if (before[i].sa_handler != SIG_IGN) sigaction(ending[i], &action, NULL);
    }
}

void pst_verify_signals_close(void) {
    for (int i = 0; i < N_ENDING; i++) sigaction(ending[i], before + i, NULL);
    if (asked) raise(asked);
}

pst_status pst_verify_process(const char *program, char *const *argv, char *const *env,
                              const char *output, int *exit_status) {
    pid_t pid = 0;
    int how = 0;
    PST_TRY(spawn(program, argv, env, output, &pid));
    while (waitpid(pid, &how, 0) < 0) {
        if (errno != EINTR)
            return pst_fail(PST_EINTERNAL, "cannot wait for %s: %s", program, strerror(errno));
        if (asked) kill(pid, SIGKILL); /* its results are of no use any more */
    }
    if (asked) return pst_fail(PST_EINPUT, "stopped by signal %d", (int)asked);
    *exit_status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    return PST_OK;
}

static pst_status make_folders(const pst_verify_run *run) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", run->folder, run->name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return pst_fail(PST_ENOMEM, "cannot create %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/%s/record", run->folder, run->name);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return pst_fail(PST_ENOMEM, "cannot create %s: %s", path, strerror(errno));
    return PST_OK;
}

/* Why nothing can be written to the folder, such as a full disk: the log of the run could not be
 * written, either. */
static void explain_silence(const char *folder, char said[PST_LAUNCH_SAID]) {
    static const char bytes[4096];
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/probe", folder);
    FILE *f = fopen(path, "w");
    int bad = !f || fwrite(bytes, sizeof bytes, 1, f) != 1 || fflush(f) != 0;
    if (bad) snprintf(said, PST_LAUNCH_SAID, "cannot write to %.400s: %s", folder, strerror(errno));
    else snprintf(said, PST_LAUNCH_SAID, "it printed nothing");
    if (f) fclose(f);
    remove(path);
}

pst_status pst_verify_launch(const pst_verify_run *run, pst_verify_end *end) {
    list argv = {0}, env = {0};
    char log[PATH_BYTES];
    PST_TRY(make_folders(run));
    snprintf(log, sizeof log, "%s/%s.log", run->folder, run->name);
    int good = arguments(run, &argv) && environment(run, &env);
    pst_status status =
        good ? pst_verify_process("/proc/self/exe", argv.item, env.item, log, &end->exit_status)
             : pst_fail(PST_ENOMEM, "no memory to start a run");
    release(&argv);
    release(&env);
    PST_TRY(status);
    pst_verify_last_line(log, end->said);
    if (end->exit_status && !*end->said) explain_silence(run->folder, end->said);
    return PST_OK;
}
