/* test: wrap=malloc,calloc,realloc,free,aligned_alloc,strdup,strndup,asprintf,mmap,munmap,fopen
 * test: wrap=open_memstream,fclose
 * test: wrap=opendir,closedir,realpath,nftw,pthread_create,json_pack,json_loadb,json_loads isa=any
 * test: wrap=pst_feed_batch,pst_log,pst_ckpt_clean,pst_ckpt_prune,pst_cpu_peak_flops
 * test: wrap=pst_machine_memory,pst_machine_cpu_model
 * Every request for memory fails once, and once together with all that follow: the call returns
 * ENOMEM with a sentence, and all that was got before is given back. Of the many requests a share
 * is tried; PST_ALLOC_ALL=1 tries many more (test_allocation_all.sh), PST_ALLOC_ALL=2 all there
 * are, in both ways: minutes. PST_SEED shifts the share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/durable.h"
#include "penstock/train.h"
#include "run/allocations_run.h"
#include "run/runs.h"
#include "run/feed.h"
#include <fcntl.h>
#include <time.h>

#define YAML(kind, more)                                                                           \
    "name: run\nmodel: {kind: " kind "}\ndata: {kind: text, paths: [\"d/**/*.txt\", b.txt]}\n"     \
    "train: {steps: 1, batch: 3, micro_batch: 1}\nparallel: {threads: 2, transport: self" more     \
    "}\n"
#define GPT YAML("gpt, layers: 1, heads: 2, channels: 8, context: 8", "")
#define MLP YAML("mlp, layers: 1, channels: 8, context: 8", "")
#define SHARED YAML("mlp, layers: 1, channels: 8, context: 8", ", data: 2, zero: 2")

static FILE *nowhere;
static char place[] = "/dev/shm/pst-allocation-XXXXXX";

/* --- what runs -------------------------------------------------------------------------------- */

static pst_status train(const char *file, int ranks, const char *runs, const char *resume,
                        const char *word) {
    pst_config *c;
    PST_TRY(pst_config_load(file, word ? &word : NULL, word != NULL, &c));
    pst_train_options o = {
        .size = sizeof o, .ranks = ranks, .runs = runs, .resume = resume, .quiet = 1};
    pst_status status = pst_train(c, &o);
    pst_config_close(c);
    return status;
}

static pst_status run_config(void) {
    static const char *const words[] = {"train.steps=3", "data.paths=[a.txt, 'b c.txt']"};
    pst_config *c;
    PST_TRY(pst_config_load("gpt.yaml", words, 2, &c));
    pst_status status = pst_config_print(c, nowhere);
    pst_config_close(c);
    return status;
}

static pst_status run_train(void) { return train("mlp.yaml", 3, "new", "", NULL); }
static pst_status run_other(void) { return train("gpt.yaml", 1, "new", "", "train.optimizer=sgd"); }
static pst_status run_resume(void) { return train("mlp.yaml", 2, "runs", "runs/run", NULL); }
static pst_status run_import(void) { return train("gpt.yaml", 2, "new", "", "model.weights=hf"); }
static pst_status run_timed(void) {
    return train("mlp.yaml", 2, "new", "", "parallel.device=timed");
}

static pst_status run_shared(void) { return train("shared.yaml", 2, "new", "", NULL); }

static pst_status run_generate(void) {
    pst_generate_options o = {.size = sizeof o,
                              .source = "runs/run",
                              .prompt = "int",
                              .tokens = 2,
                              .top_k = 3,
                              .temperature = 1};
    return pst_generate(&o, nowhere);
}

static pst_status run_generate_hf(void) {
    pst_generate_options o = {.size = sizeof o, .source = "hf", .tokens = 1};
    return pst_generate(&o, nowhere);
}

static pst_status run_inspect(void) {
    static const char *const show[] = {"graph",    "tape",         "plan",
                                       "schedule", "instructions", "memory"};
    static const char *const other[] = {"runs/run", "runs/run/plan.yaml", "hf",
                                        "hf/model.safetensors"};
    for (int i = 0; i < 6; i++) {
        pst_inspect_options o = {.size = sizeof o, .path = "mlp.yaml", .what = show[i], .ranks = 2};
        PST_TRY(pst_inspect(&o, nowhere));
    }
    for (int i = 0; i < 4; i++) {
        pst_inspect_options o = {.size = sizeof o, .path = other[i], .what = ""};
        PST_TRY(pst_inspect(&o, nowhere));
    }
    return PST_OK;
}

static pst_status run_simulate(void) {
    pst_simulate_options o = {.size = sizeof o,
                              .schedule = "1f1b",
                              .stages = 3,
                              .micro_batches = 4,
                              .f_ms = 1,
                              .b_ms = 1,
                              .w_ms = 1,
                              .transfer_ms = 0.1,
                              .trace = "t.json",
                              .svg = "t.svg",
                              .json = 1,
                              .execute = 1};
    PST_TRY(pst_simulate_study(&o, nowhere));
    o = (pst_simulate_options){
        .size = sizeof o, .plan = "runs/run/plan.yaml", .trace = "", .svg = ""};
    return pst_simulate_study(&o, nowhere);
}

static pst_status export_to(const char *folder) {
    return pst_convert(&(pst_convert_options){
        .size = sizeof(pst_convert_options), .checkpoint = "gpt/run", .to = folder});
}

static pst_status run_export(void) { return export_to("new"); }

enum { TOKENS = 4, WORDS = 5, WIDTH = 8 };

static pst_status build(pst_graph *g) {
    uint32_t in, next, table, x;
    PST_TRY(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){1, TOKENS}, &in));
    PST_TRY(pst_graph_add_data(g, "targets", 2, (uint64_t[]){1, TOKENS}, &next));
    PST_TRY(pst_graph_add_param(g, "table", 2, (uint64_t[]){WORDS, WIDTH}, PST_INIT_NORMAL, 0.3f, 1,
                                &table));
    PST_TRY(pst_graph_add_embedding(g, "embedding", in, table, PST_NONE, &x));
    PST_TRY(pst_graph_add_linear(g, "head", x, table, PST_NONE, PST_ACT_NONE, &x));
    return pst_graph_add_cross_entropy(g, "loss", x, next, &x);
}

static int is_saved; /* there is a checkpoint of such a session */

/* Saving comes last: tidying up behind it is done without. */
static pst_status use(pst_session *s) {
    static const int32_t tokens[2 * TOKENS] = {0, 1, 2, 3, 4, 3, 2, 1};
    const int32_t *const data[] = {tokens, tokens};
    double loss;
    uint64_t hash;
    if (is_saved) PST_TRY(pst_session_load(s, "saved"));
    PST_TRY(pst_session_step(s, data, 2, NULL));
    PST_TRY(pst_session_evaluate(s, data, 2, &loss));
    PST_TRY(pst_session_hash(s, &hash));
    alloc_state.mark = alloc_state.n;
    return pst_session_save(s, is_saved ? "new" : "saved");
}

/* As a program uses the library. */
static pst_status run_session(void) {
    static const char *const words[] = {"batch=2", "micro_batch=1", "steps=2", "threads=1",
                                        "log.level=error"};
    pst_config *c = NULL;
    pst_graph *g = NULL;
    pst_plan *plan = NULL;
    pst_session *s = NULL;
    pst_status status = pst_config_open("run", words, sizeof words / sizeof *words, &c);
    if (status == PST_OK) status = pst_graph_open("test", 1, &g);
    if (status == PST_OK) status = build(g);
    if (status == PST_OK) status = pst_plan_solve(c, g, 2, &plan);
    if (status == PST_OK) status = pst_session_open(c, g, plan, &s);
    if (status == PST_OK) status = use(s);
    pst_session_close(s);
    pst_plan_close(plan);
    pst_graph_close(g);
    pst_config_close(c);
    return status;
}

static const struct {
    const char *name;
    pst_status (*run)(void);
    uint64_t share; /* so many requests are tried by default, */
    uint64_t step;  /* and every so manieth with PST_ALLOC_ALL=1 */
} scenarios[] = {
    {"config", run_config, 8, 1},
    {"train", run_train, 50, 37},
    {"another model", run_other, 20, 47},
    {"resume", run_resume, 40, 61},
    {"import", run_import, 12, 47},
    {"timed", run_timed, 12, 23},
    {"shared out", run_shared, 30, 47},
    {"generate", run_generate, 12, 3},
    {"generate hf", run_generate_hf, 10, 3},
    {"inspect", run_inspect, 20, 23},
    {"simulate", run_simulate, 20, 3},
    {"export", run_export, 20, 3},
    {"session", run_session, 40, 7},
};
enum { LIMIT_WRONG = 20, N_SCENARIO = sizeof scenarios / sizeof *scenarios };

/* --- one try ---------------------------------------------------------------------------------- */

static int entries(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

static int quiet_from; /* the error stream while a scenario runs */

static pst_status attempt(int which, uint64_t fail, int ever_after) {
    pst_durable_remove("new");
    fflush(stderr);
    int keep = dup(2);
    dup2(quiet_from, 2);
    pst_error_clear();
    complaints = 0;
    alloc_begin(fail, ever_after);
    pst_status status = scenarios[which].run();
    alloc_end();
    dup2(keep, 2);
    close(keep);
    return status;
}

/* A thread that was joined may be listed for a moment more. */
static int threads_stay(int threads) {
    for (int i = 0; i < 1000; i++) {
        if (entries("/proc/self/task") == threads) return 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return 1;
}

/* Says what is wrong with the outcome; NULL when it is right. */
static const char *verdict(pst_status status, uint64_t fail, int fds, int threads) {
    int in_steps = alloc_state.mark && fail > alloc_state.mark;
    if (!alloc_state.failed) return "the request was not made again";
    if (alloc_state.live) return "memory is lost";
    if (entries("/proc/self/fd") != fds) return "a file stays open";
    if (threads_stay(threads)) return "a thread stays";
    if (status == PST_OK && !in_steps && !alloc_state.in_optional && !complaints)
        return "the failure was not noticed";
    if (status != PST_OK && status != PST_ENOMEM) return "the status is wrong";
    if (status != PST_OK && !*pst_error()) return "nothing was said";
    return NULL;
}

static uint64_t tried, wrong;

static void try(int which, uint64_t fail, int ever_after) {
    int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    pst_status status = attempt(which, fail, ever_after);
    const char *what = verdict(status, fail, fds, threads);
    tried++;
    if (!what) return;
    fprintf(stderr, "%s: request %llu%s fails: %s; %s: %s\n", scenarios[which].name,
            (unsigned long long)fail, ever_after ? " and all later ones" : "", what,
            pst_status_text(status), pst_error());
    if (alloc_state.failed) alloc_print_failed();
    if (alloc_state.live) alloc_print_live();
    if (++wrong >= LIMIT_WRONG) fail_msg("that is enough");
}

static void test_scenarios(void **state) {
    (void)state;
    const char *all = getenv("PST_ALLOC_ALL"), *seed = getenv("PST_SEED");
    int some = all && *all == '1';
    uint64_t offset = seed ? strtoull(seed, NULL, 10) : 0, rarely = some ? 4 : 1;
    if (!all) rarely = 2;
    for (int i = 0; i < N_SCENARIO; i++) {
        clock_t began = clock();
        for (int warm = 0; warm < 2; warm++) /* libraries keep what they got the first time */
            if (attempt(i, 0, 0) != PST_OK) fail_msg("%s: %s", scenarios[i].name, pst_error());
        if (alloc_state.live) alloc_print_live();
        assert_int_equal(alloc_state.live, 0);
        uint64_t n = alloc_state.n, before = tried, turn = 0;
        uint64_t step = some ? scenarios[i].step : 1;
        if (!all) step = n / scenarios[i].share + 1;
        for (uint64_t k = 1 + offset % step; k <= n; k += step, turn++) {
            int ever_after = turn % rarely == 0;
            if (!ever_after || all) try(i, k, 0);
            if (ever_after) try(i, k, 1);
        }
        printf("%-14s %6llu requests, %6llu failures, %.2f s of CPU\n", scenarios[i].name,
               (unsigned long long)n, (unsigned long long)(tried - before),
               (double)(clock() - began) / CLOCKS_PER_SEC);
    }
    assert_int_equal(wrong, 0);
}

static int prepare(void **state) {
    (void)state;
    nowhere = fopen("/dev/null", "w");
    quiet_from = open("/dev/null", O_WRONLY | O_CLOEXEC);
    /* In memory: a disk takes its time, and longer with every file that was just removed. */
    if (!mkdtemp(place) && !mkdtemp(strcpy(place, "/tmp/penstock-test-XXXXXX"))) return 1;
    if (chdir(place)) return 1;
    run_write_file("gpt.yaml", GPT);
    run_write_file("mlp.yaml", MLP);
    run_write_file("shared.yaml", SHARED);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"d/a.txt", "d/e/b.txt", "b.txt"};
        if (i < 2 && mkdir(i ? "d/e" : "d", 0700)) return 1;
        FILE *f = fopen(names[i], "w");
        for (int k = 0; f && k < 200; k++) fprintf(f, "%d: a line of text %d\n", k, k * k % 71);
        if (!f || fclose(f)) return 1;
    }
    if (train("mlp.yaml", 1, "runs", "", NULL) != PST_OK ||
        train("gpt.yaml", 1, "gpt", "", NULL) != PST_OK || export_to("hf") != PST_OK ||
        run_session() != PST_OK) {
        fprintf(stderr, "%s\n", pst_error());
        return 1;
    }
    is_saved = 1;
    return 0;
}

static int clean(void **state) {
    (void)state;
    pst_durable_remove(place);
    return chdir("/");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios)};
    return cmocka_run_group_tests(tests, prepare, clean);
}
