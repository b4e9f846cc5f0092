/* test: label=full timeout=300 isa=any
 * Soak: at a random moment of a run a rank or the launcher is killed or stopped, or its disk fills
 * up, also while a checkpoint is written; the run is resumed, on another number of ranks, perhaps
 * disturbed again, and ends with the very losses and weights of an undisturbed one. No process,
 * shared memory or temporary file stays behind. PST_KILL_RUNS says how many runs; PST_SEED repeats
 * them; PST_KILL_ONLY=i repeats run i alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/process.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

enum { STEPS = 40, MOST_RANKS = 4, MOST_FAULTS = 3, MANY = 50, LIMIT_S = 60, GONE_S = 20 };
#define YAML                                                                                       \
    "name: run\nmodel: {kind: gpt, layers: 3, heads: 4, channels: 24, context: 16, dropout: "      \
    "0.1}\n"                                                                                       \
    "data: {kind: text, paths: [\"%s/*.h\"], validation: 0.02}\n"                                  \
    "train: {steps: 40, batch: 4, micro_batch: 1, warmup: 3, lr: 1.0e-3, validate_every: 8}\n"     \
    "checkpoint: {every: 2, keep: 3}\n"

typedef enum {
    KILL_RANK,
    STOP_RANK,
    KILL_LAUNCHER,
    STOP_LAUNCHER,
    FILL_DISK,
    LIMIT_FILES,
    N_FAULT
} fault;
static const char *const fault_name[] = {"kill rank",     "stop rank", "kill launcher",
                                         "stop launcher", "fill disk", "limit files"};

static char disk[600], temporary[600], run[700], filler[700];
static int is_private; /* mounts of our own: a small disk, and nobody else's shared memory */
static run_result calm;
static double duration[MOST_RANKS + 1]; /* of an undisturbed run, seconds */
static int faults_of[N_FAULT], in_start, in_checkpoint, too_late, statuses[256];
static uint64_t random_state;

static uint64_t draw(uint64_t below) { /* splitmix64 */
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

/* --- what is there ---------------------------------------------------------------------------- */

/* Entries of a folder that begin with `prefix`; the last one's name. */
static int entries(const char *folder, const char *prefix, char name[256]) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
            !strncmp(e->d_name, prefix, strlen(prefix))) {
            snprintf(name, 256, "%s", e->d_name);
            n++;
        }
    if (dir) closedir(dir);
    return n;
}

static int checkpoints_with(const char *prefix) {
    char path[760], name[256];
    snprintf(path, sizeof path, "%s/checkpoints", run);
    return entries(path, prefix, name);
}

static void remove_tree(const char *path) {
    char command[800];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command)) fail_msg("%s", command);
}

/* What a run has started and left is our child now (subreaper); all of it must go by itself. */
static void check_nothing_left(const char *what) {
    char name[256] = "";
    double end = process_now() + GONE_S;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && process_now() < end)
        if (!pid) process_sleep_ms(5);
    if (pid >= 0) fail_msg("%s: a process is left", what);
    if (entries(temporary, "", name)) fail_msg("%s: %s is left in TMPDIR", what, name);
    if (is_private && entries("/dev/shm", "", name))
        fail_msg("%s: %s is left in /dev/shm", what, name);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Leaves a little: a page or two of a checkpoint may still fit. */
static void fill_disk(void) {
    struct statvfs s;
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || statvfs(disk, &s)) fail_msg("cannot fill %s: %s", disk, strerror(errno));
    off_t room = (off_t)(s.f_bavail * s.f_bsize) - (off_t)draw(64 << 10);
    if (room > 0 && posix_fallocate(fd, 0, room)) { /* the run was faster: so much the better */
    }
    close(fd);
}

/* A rank of the job: the process itself when it runs alone. 0: not there yet. */
static pid_t any_rank(const process *p, int ranks) {
    pid_t child[PROCESS_MAX_CHILD];
    if (ranks == 1) return p->pid;
    int n = process_children(p->pid, child);
    return n ? child[draw((uint64_t)n)] : 0;
}

/* 0: there was nobody to strike. */
static int strike(const process *p, int ranks, fault f) {
    struct rlimit limit = {.rlim_cur = 4096 * draw(16), .rlim_max = RLIM_INFINITY};
    pid_t rank = 0;
    while (!(rank = any_rank(p, ranks)) && process_alive(p->pid)) process_sleep_ms(1);
    switch (f) {
    case KILL_RANK:
    case STOP_RANK: return rank && !kill(rank, f == KILL_RANK ? SIGKILL : SIGSTOP);
    case KILL_LAUNCHER: return !kill(p->pid, SIGKILL);
    case STOP_LAUNCHER:
        kill(p->pid, SIGSTOP);
        process_sleep_ms((long)draw(400));
        return !kill(p->pid, SIGCONT);
    case FILL_DISK: fill_disk(); return 1;
    case LIMIT_FILES:
        limit.rlim_max = limit.rlim_cur;
        return rank && !prlimit(rank, RLIMIT_FSIZE, &limit, NULL);
    case N_FAULT: break;
    }
    return 0;
}

/* Sleeps until some seconds after the start and until so many steps are done; aimed: and on until a
 * checkpoint is being written. 0: the run was over before. */
static int wait_for_moment(const process *p, double seconds, int steps, int aimed) {
    for (double end = process_now() + seconds; process_now() < end; process_sleep_ms(1))
        if (!process_alive(p->pid)) return 0;
    for (; process_steps(run) < steps; process_sleep_ms(1))
        if (!process_alive(p->pid)) return 0;
    for (; aimed && !checkpoints_with(".tmp-"); sched_yield())
        if (!process_alive(p->pid)) return 0;
    return process_alive(p->pid);
}

/* --- one attempt ------------------------------------------------------------------------------ */

static process begin(int ranks, const char *transport, const char *file) {
    char n[16], word[64];
    const char *program = getenv("PENSTOCK");
    const char *argv[] = {
        program ? program : PST_BINARY, "train", file, "-q", "-n", n, "--runs", disk,
        "parallel.threads=1",           word,    NULL, NULL, NULL};
    snprintf(n, sizeof n, "%d", ranks);
    snprintf(word, sizeof word, "parallel.transport=%s", transport);
    if (checkpoints_with("step-")) {
        argv[10] = "--resume";
        argv[11] = run;
    } else remove_tree(run);
    return process_start(argv, "attempt");
}

/* Exit status of a run that is resumed, or started when there is nothing to resume; f N_FAULT:
 * undisturbed. */
static int attempt(const char *file, fault f, char *told, size_t bytes) {
    int ranks = 1 + (int)draw(MOST_RANKS), self = !draw(5), processes = self ? 1 : ranks,
        aimed = !draw(3);
    int steps = draw(3) ? (int)draw(STEPS) : 0; /* by progress, or by the clock */
    double at = steps ? (double)draw(5) / 1000 : duration[ranks] * 0.7 * (double)draw(1000) / 1000;
    process p = begin(ranks, self ? "self" : "auto", file);
    int struck = f != N_FAULT && wait_for_moment(&p, at, steps, aimed);
    int checkpoint = struck && checkpoints_with(".tmp-"), began = process_steps(run) > 0;
    struck = struck && strike(&p, processes, f);
    if (struck && processes == 1 && f == STOP_RANK) {
        process_sleep_ms(30);
        kill(p.pid, SIGKILL);
    } /* nobody else would */
    int status = process_wait(&p, LIMIT_S);
    if (f != N_FAULT) {
        faults_of[f] += struck;
        too_late += !struck;
        in_checkpoint += struck && checkpoint;

        in_start += struck && !began;
        if (status >= 0) statuses[status & 255]++;
    }
    size_t used = strlen(told);
    snprintf(told + used, bytes - used, "%s%d %s%s", used ? "; " : "", ranks, self ? "self " : "",
             f == N_FAULT ? "undisturbed" : fault_name[f]);
    used = strlen(told);
    if (f != N_FAULT && steps) snprintf(told + used, bytes - used, " at step %d", steps);
    if (f != N_FAULT && !steps) snprintf(told + used, bytes - used, " at %.2f s", at);
    used = strlen(told);
    const char *when = checkpoint ? " (in a checkpoint)" : "";
    if (!struck) when = " (too late)";
    snprintf(told + used, bytes - used, "%s -> %d", f == N_FAULT ? "" : when, status);
    unlink(filler);
    if (status < 0) fail_msg("%s: it does not end: %s", told, process_said(&p));
    int expected = !status || (struck && (status == 3 || status == 4 || status == 128 + SIGKILL));
    if (!expected) fail_msg("%s: %s", told, process_said(&p));
    check_nothing_left(told);
    return status;
}

/* Every loss that was written down is the undisturbed run's, and so are the weights. */
static int is_done(const char *told) {
    char path[760], line[4096];
    int done = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        char loss[40];
        json_t *j = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(j, "event"));
        const char *hash = json_string_value(json_object_get(j, "weights_xxh64"));
        json_int_t step = json_integer_value(json_object_get(j, "step"));
        snprintf(loss, sizeof loss, "%.17g", json_real_value(json_object_get(j, "loss")));
        if (j && !event && (step < 1 || step > STEPS || strcmp(loss, calm.loss[step - 1])))
            fail_msg("%s: loss of step %d is %s", told, (int)step, loss);
        if (event && !strcmp(event, "end") &&
            json_integer_value(json_object_get(j, "steps")) == STEPS) {
            if (!hash || strcmp(hash, calm.hash))
                fail_msg("%s: weights %s, not %s", told, hash ? hash : "?", calm.hash);
            done = 1;
        }
        json_decref(j);
    }
    if (f) fclose(f);
    return done;
}

static void soak(const char *file, uint64_t seed, int i) {
    char told[1500] = "";
    random_state = seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)i * UINT64_C(0x2545f4914f6cdd1d);
    draw(2);
    remove_tree(run);
    int faults = 1 + (int)draw(MOST_FAULTS), done = 0;
    for (int k = 0; k < faults && !done; k++) {
        fault f = (fault)draw(N_FAULT);
        if (f == FILL_DISK && !is_private) f = LIMIT_FILES;
        if (attempt(file, f, told, sizeof told) == 0) done = is_done(told);
    }
    for (int k = 0; k < 2 && !done; k++) {
        /* the first may find everything done but for a last line */
        attempt(file, N_FAULT, told, sizeof told);
        done = is_done(told);
    }
    printf("run %d: %s\n", i, told);
    fflush(stdout);
    if (!done) fail_msg("run %d does not come to its end", i);
    if (checkpoints_with("."))
        fail_msg("run %d: something temporary is left beside the checkpoints", i);
    char name[256];
    if (entries(run, ".", name) || access(filler, F_OK) == 0)
        fail_msg("run %d: %s is left", i, name);
}

/* --- all of them ------------------------------------------------------------------------------ */

static void check_struck(int n) {
    int struck = 0;
    for (int f = 0; f < N_FAULT; f++) {
        printf("%-14s %4d\n", fault_name[f], faults_of[f]);
        struck += faults_of[f];
    }
    printf("of these %d before the first step, %d in a checkpoint; %d came too late\n", in_start,
           in_checkpoint, too_late);
    for (int s = 0; s < 256; s++)
        if (statuses[s]) printf("exit status %3d %4d times\n", s, statuses[s]);
    if (struck < too_late) fail_msg("of %d faults only %d struck", struck + too_late, struck);
    for (int f = 0; n >= MANY && f < N_FAULT; f++)
        if (!faults_of[f] && (f != FILL_DISK || is_private))
            fail_msg("no fault was of the kind: %s", fault_name[f]);
    if (n >= MANY && !in_checkpoint) fail_msg("no fault struck in a checkpoint");
}

static void test_soak(void **state) {
    (void)state;
    const char *runs = getenv("PST_KILL_RUNS"), *seed = getenv("PST_SEED"),
               *only = getenv("PST_KILL_ONLY");
    uint64_t base = seed ? strtoull(seed, NULL, 10) : 1;
    int n = runs ? atoi(runs) : 8, first = only ? atoi(only) : 0;
    char file[700], told[200], text[2000];
    snprintf(file, sizeof file, "%s/run.yaml", run_folder());
    snprintf(text, sizeof text, YAML, run_folder());
    run_write_file(file, text);
    printf("seed %llu, %d runs%s\n", (unsigned long long)base, n,
           is_private ? "" : " (no mounts: limits instead)");
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        double began = process_now();
        remove_tree(run);
        process p = begin(ranks, "auto", file);
        int status = process_wait(&p, LIMIT_S);
        if (status) fail_msg("undisturbed on %d ranks: %d: %s", ranks, status, process_said(&p));
        duration[ranks] = process_now() - began;
        if (ranks == 1) {
            snprintf(calm.folder, sizeof calm.folder, "%.500s", run);
            run_read(&calm);
            assert_int_equal(calm.steps, STEPS);
        }
        snprintf(told, sizeof told, "undisturbed on %d ranks", ranks);
        assert_true(is_done(told));
        check_nothing_left(told);
    }
    for (int i = first; i < (only ? first + 1 : n); i++) soak(file, base, i);
    if (!only) check_struck(n);
}

/* A mount namespace of our own: a disk of a few MB, and a /dev/shm that only our runs use. Without
 * the right to, the rest is tested all the same. */
static int prepare(void **state) {
    (void)state;
    snprintf(disk, sizeof disk, "%s/disk", run_folder());
    snprintf(temporary, sizeof temporary, "%s/tmp", run_folder());
    snprintf(run, sizeof run, "%s/run", disk);
    snprintf(filler, sizeof filler, "%s/filler", disk);
    if (mkdir(disk, 0700) || mkdir(temporary, 0700) || setenv("TMPDIR", temporary, 1)) return 1;
    char command[1500]; /* the sources may change while this runs */
    snprintf(command, sizeof command, "cp '%s'/src/base/*.h '%s'", PST_SOURCE_DIR, run_folder());
    if (system(command)) return 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    is_private = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                 !mount("tmpfs", disk, "tmpfs", 0, "size=6m") &&
                 !mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=512m");
    return 0;
}

static int clean(void **state) {
    (void)state;
    umount2(disk, MNT_DETACH);
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    return cmocka_run_group_tests(tests, prepare, clean);
}
