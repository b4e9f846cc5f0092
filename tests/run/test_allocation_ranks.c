/* test: wrap=malloc,calloc,realloc,free,aligned_alloc,strdup,strndup,asprintf,mmap,munmap,fopen
 * test: wrap=open_memstream,fclose
 * test: label=full timeout=300 isa=any
 * test: wrap=opendir,closedir,realpath,nftw,pthread_create,json_pack,json_loadb,json_loads
 * test: wrap=pst_feed_batch,pst_log,pst_ckpt_clean,pst_ckpt_prune,pst_cpu_peak_flops
 * test: wrap=pst_machine_memory,pst_machine_cpu_model
 * The same as test_allocation.c where a launcher and its ranks are processes: one of them gets no
 * memory for its n-th request. The job ends with status 4 and a sentence, and leaves no process,
 * segment or temporary file. This very program is launcher and rank. PST_ALLOC_ALL=1 tries more,
 * PST_ALLOC_ALL=2 all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/durable.h"
#include "run/feed.h"
#include "run/allocations_run.h"
#include "run/process.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#define YAML                                                                                       \
    "name: run\nmodel: {kind: mlp, layers: 1, channels: 8, context: 8}\ndata: {kind: text, "       \
    "paths: [a.txt]}\n"                                                                            \
    "train: {steps: 1, batch: 2, micro_batch: 1}\nparallel: {threads: 1, transport: ucx}\n"
enum { LIMIT_S = 60, GONE_S = 20, SHARE = 8, MORE = 16 };

/* What the process that gets no memory says of itself. */
typedef struct {
    uint64_t n, failed, live;
    int may_go_on; /* it did without, said so, or had begun to train */
} account;

/* --- launcher and ranks ----------------------------------------------------------------------- */

static void write_account(uint64_t fail) {
    FILE *f = __real_fopen("account", "w");
    int in_steps = alloc_state.mark && fail > alloc_state.mark;
    if (f)
        fprintf(f, "%llu %llu %llu %d", (unsigned long long)alloc_state.n,
                (unsigned long long)alloc_state.failed, (unsigned long long)alloc_state.live,
                in_steps || alloc_state.in_optional || complaints);
    if (f) __real_fclose(f);
}

/* who: "launcher", or nothing in a rank. */
static int play(const char *who) {
    const char *rank = getenv("PMIX_RANK"), *name = rank ? rank : who;
    int is_it = !strcmp(name, getenv("PST_ALLOC_WHO"));
    uint64_t fail = strtoull(getenv("PST_ALLOC_FAIL"), NULL, 10);
    char *argv[] = {(char *)"test", (char *)"rank", NULL};
    pst_train_options o = {
        .size = sizeof o, .ranks = rank ? 0 : 2, .runs = "runs", .quiet = 1, .argv = argv};
    pst_config *c = NULL;
    if (is_it) alloc_begin(fail, 0);
    pst_status status = pst_config_load("run.yaml", NULL, 0, &c);
    if (status == PST_OK) status = pst_train(c, &o);
    pst_config_close(c);
    if (is_it) alloc_end();
    if (is_it) write_account(fail);
    if (status != PST_OK && *pst_error()) fprintf(stderr, "penstock: %s\n", pst_error());
    return pst_status_exit(status);
}

/* --- one try ---------------------------------------------------------------------------------- */

static int is_private, tried;
/* by a launcher that lacks nothing: libraries keep what they got the first time */
static uint64_t kept;

/* The first name in a folder, NULL: it is empty. */
static const char *any_entry(const char *folder) {
    static char name[256];
    int found = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            found = 1;
            snprintf(name, sizeof name, "%s", e->d_name);
        }
    if (dir) closedir(dir);
    return found ? name : NULL;
}

/* What a job has started is our child now (subreaper). */
static int process_stays(void) {
    double end = process_now() + GONE_S;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && process_now() < end)
        if (!pid) process_sleep_ms(2);
    return pid >= 0;
}

static account attempt(const char *who, uint64_t fail) {
    const char *argv[] = {"/proc/self/exe", "job", NULL}, *left;
    char number[32];
    unsigned long long word[3] = {0};
    account a = {0};
    pst_durable_remove("runs");
    unlink("account");
    snprintf(number, sizeof number, "%llu", (unsigned long long)fail);
    setenv("PST_ALLOC_WHO", who, 1);
    setenv("PST_ALLOC_FAIL", number, 1);
    process p = process_start(argv, "job");
    int status = process_wait(&p, LIMIT_S);
    FILE *f = fopen("account", "r");
    if (f && fscanf(f, "%llu %llu %llu %d", &word[0], &word[1], &word[2], &a.may_go_on) == 4) {
        a.n = word[0];
        a.failed = word[1];
        a.live = word[2];
    }
    if (f) fclose(f);
    const char *said = process_said(&p);
    int is_right = status == 4 ? fail && *said : status == 0 && (!a.failed || a.may_go_on);
    if (!is_right) fail_msg("%s, request %s: exit status %d: %s", who, number, status, said);
    if (!strcmp(who, "launcher") && fail && a.live > kept)
        fail_msg("launcher, request %s: memory is lost", number);
    if (process_stays()) fail_msg("%s, request %s: a process stays", who, number);
    if ((left = any_entry("tmp")))
        fail_msg("%s, request %s: %s stays in TMPDIR", who, number, left);
    if (is_private && (left = any_entry("/dev/shm")))
        fail_msg("%s, request %s: /dev/shm/%s stays", who, number, left);
    tried += a.failed != 0;
    return a;
}

static void fail_in(const char *who) {
    const char *all = getenv("PST_ALLOC_ALL"), *seed = getenv("PST_SEED");
    account calm = attempt(who, 0);
    kept = calm.live;
    uint64_t n = calm.n, step = n / SHARE + 1;
    if (all) step = *all == '1' ? n / MORE + 1 : 1;
    assert_true(n > 0);
    tried = 0;
    for (uint64_t k = 1 + (seed ? strtoull(seed, NULL, 10) : 0) % step; k <= n; k += step)
        attempt(who, k);
    printf("%-8s %6llu requests, %4d failures, %llu kept\n", who, (unsigned long long)n, tried,
           (unsigned long long)kept);
    assert_true(tried > 0);
}

static void test_launcher(void **state) {
    (void)state;
    fail_in("launcher");
}

static void test_first_rank(void **state) {
    (void)state;
    fail_in("0");
}

static void test_other_rank(void **state) {
    (void)state;
    fail_in("1");
}

/* --- all of them ------------------------------------------------------------------------------ */

static int prepare(void **state) {
    (void)state;
    char tmp[600];
    snprintf(tmp, sizeof tmp, "%s/tmp", run_folder());
    if (chdir(run_folder()) || mkdir(tmp, 0700) || setenv("TMPDIR", tmp, 1)) return 1;
    run_write_file("run.yaml", YAML);
    run_write_file("a.txt", "a line of text, and another one; a line of text, and another one; and "
                            "so on and so forth\n");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    is_private = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                 !mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=512m");
    return 0;
}

static int clean(void **state) {
    (void)state;
    run_folder_remove();
    return chdir("/");
}

int main(int argc, char **argv) {
    if (argc > 1) return play(!strcmp(argv[1], "job") ? "launcher" : "");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launcher),
                                       cmocka_unit_test(test_first_rank),
                                       cmocka_unit_test(test_other_rank)};
    return cmocka_run_group_tests(tests, prepare, clean);
}
