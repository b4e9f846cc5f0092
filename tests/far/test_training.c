/* test: label=quick timeout=120
 * Training on a device whose memory the host cannot reach and whose launches end later
 * (far_module.c): the bits are the CPU's, to and from checkpoints too; what is wrong with a module
 * or its device is said in a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backends/module.h"
#include "far/far.h"
#include "skip.h"

enum { TEXT = 1 << 16 };

static void one_rank(void **state) {
    (void)state;
    SAME_BITS("one", 1, "parallel.post_validation=true");
    SAME_BITS("one-fp16", 1, "train.precision=fp16");
    const char *about = pst_module_get()->about(0);
    if (atoi(about + strlen("far: ")) < 10) fail_msg("nothing was launched ahead: %s", about);
    int asked = 0, launched = 0; /* in validations an event stands for several */
    if (sscanf(strchr(about, ',') + 1, "%d of %d", &asked, &launched) != 2 || asked < 1 ||
        asked >= launched)
        fail_msg("each launch has an event: %s", about);
    if (has_bf16("one rank in bf16")) SAME_BITS("one-bf16", 1, "train.precision=bf16");
}

static void several_ranks(void **state) {
    (void)state;
    SAME_BITS("two", 2, "parallel.schedule=1f1b");
    SAME_BITS("tensor", 2, "parallel.tensor=2");
}

#define PACKS "parallel.compress.links=all", "parallel.compress.min_bytes=0"

/* For slow links: packed messages, and gradients that are exchanged beside the passes. */
static void slow_links(void **state) {
    (void)state;
    SAME_BITS("packed", 2, "parallel.data=2", "parallel.compress.up=int8",
              "parallel.compress.down=int4", PACKS);
    SAME_BITS("activations", 2, "parallel.compress.stages=int8", PACKS);
    SAME_BITS("delayed", 2, "parallel.data=2", "parallel.update=delayed");
    const char *about = strrchr(pst_module_get()->about(0), ',');
    int beside = 0;
    if (!about || sscanf(about, ", %d beside", &beside) != 1 || beside < 10)
        fail_msg("nothing was added beside the passes: %s", pst_module_get()->about(0));
}

/* With states in fp32 and bf16, and a matrix per rank where replicas own them. */
static void whole_parameters(void **state) {
    (void)state;
    SAME_BITS("lamb", 1, "train.optimizer=lamb", "train.optimizer_state=bf16");
    SAME_BITS("lamb-zero", 2, "train.optimizer=lamb", "parallel.data=2", "parallel.zero=1");
    SAME_BITS("muon", 2, "train.optimizer=muon", "parallel.data=2", "parallel.zero=1");
    SAME_BITS("muon-post", 2, "train.optimizer=muon", "parallel.post_validation=true",
              "train.optimizer_state=bf16");
    const char *words[] = {"parallel.device=far", "train.optimizer=muon", "parallel.tensor=2"};
    run_result refused = run_here(YAML, "muon-tensor", 2, "", words, 3);
    assert_int_equal(refused.exit_status, PST_EINPUT);
}

/* A transport of the module's own carries the messages, between processes; more ranks than it is
 * for are refused. */
static void directly(void **state) {
    (void)state;
    char log[400], said[400];
    run_result cpu = run_program(PST_BINARY, YAML, "indirectly",
                                 "-n 2 parallel.device=cpu parallel.transport=ucx");
    run_result far = run_program(PST_BINARY, YAML, "directly",
                                 "-n 2 parallel.device=far parallel.transport=nccl log.level=info");
    assert_int_equal(cpu.exit_status | far.exit_status, 0);
    run_assert_same(&far, &cpu, "directly");
    snprintf(
        log, sizeof log,
        "grep -c 'far: messages go directly' '%s/directly.log' >'%s/count'; grep -q 2 '%s/count'",
        run_folder(), run_folder(), run_folder());
    assert_int_equal(system(log), 0);
    cpu = run_program(PST_BINARY, YAML, "parts",
                      "-n 2 parallel.tensor=2 parallel.device=cpu parallel.transport=ucx");
    far = run_program(
        PST_BINARY, YAML, "parts-directly",
        "-n 2 parallel.tensor=2 parallel.device=far parallel.transport=nccl log.level=info");
    run_assert_same(&far, &cpu, "tensor ranks, directly");
    snprintf(log, sizeof log, "grep -q 'far: messages go directly' '%s/parts-directly.log'",
             run_folder());
    assert_int_equal(system(log), 0);
    far = run_program(PST_BINARY, YAML, "refused",
                      "-n 3 parallel.device=far parallel.transport=nccl");
    assert_int_equal(far.exit_status, 2);
    snprintf(said, sizeof said,
             "grep -q 'penstock: transport nccl: more ranks than GPUs' '%s/refused.log'",
             run_folder());
    assert_int_equal(system(said), 0);
}

/* Kernels that do not round factors compute what they would without: nothing else changes. These
 * know no TF32, and micro-batches of 40 rows are too odd for products of 8 bits. */
static void factors(void **state) {
    (void)state;
    static const char *const same[][2] = {{"train.precision=tf32", "train.precision=fp32"},
                                          {"train.precision=fp8", "train.precision=bf16"}};
    const size_t skip = strlen("train.precision=");
    int kinds = has_bf16("factors of fp8") ? 2 : 1;
    for (int i = 0; i < kinds; i++) {
        const char *far[] = {"parallel.device=far", same[i][0]},
                   *cpu[] = {"parallel.device=cpu", same[i][1]};
        run_result a = run_here(YAML, same[i][0] + skip, 2, "", far, 2);
        run_result b = run_here(YAML, same[i][1] + skip, 2, "", cpu, 2);
        assert_int_equal(a.exit_status | b.exit_status, 0);
        run_assert_same(&a, &b, same[i][0]);
    }
}

/* Half on one device, half on the other. */
static void resumed(void **state) {
    (void)state;
    const char *on[] = {"parallel.device=cpu", "parallel.device=far"};
    run_result whole = run_here(YAML, "whole", 1, "", on, 1);
    for (int first = 0; first < 2; first++) {
        const char *half[] = {on[first], "train.steps=2"};
        char name[16];
        snprintf(name, sizeof name, "half-%d", first);
        run_result r = run_here(YAML, name, 1, "", half, 2);
        assert_int_equal(r.exit_status, 0);
        run_result rest = run_here(YAML, name, 1, r.folder, on + 1 - first, 1);
        assert_int_equal(rest.exit_status, 0);
        assert_string_equal(rest.hash, whole.hash);
    }
}

/* Runs `PENSTOCK <arguments>` with these variables and reads what it says; returns its status. */
static int program(const char *variables, const char *arguments, char said[TEXT]) {
    char command[2400];
    snprintf(command, sizeof command, "%s '%s' %s 2>&1", variables, PST_BINARY, arguments);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(said, 1, TEXT - 1, f) : 0;
    said[n] = 0;
    int status = f ? pclose(f) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void generated(void **state) {
    (void)state;
    static char text[2][TEXT];
    char arguments[1000];
    const char *on[] = {"parallel.device=far"};
    run_result r = run_here(YAML, "generating", 1, "", on, 1);
    assert_int_equal(r.exit_status, 0);
    snprintf(arguments, sizeof arguments, "generate '%s' --tokens 40 --prompt 'static int '",
             r.folder);
    assert_int_equal(program("", arguments, text[0]), 0);
    assert_int_equal(program("PENSTOCK_MODULE=", arguments, text[1]), 0);
    assert_true(strlen(text[0]) > 40);
    assert_string_equal(text[0], text[1]);
}

static void said(const char *variables, const char *more, int status, const char *text) {
    static char out[TEXT];
    char file[400], arguments[1200];
    snprintf(file, sizeof file, "%s/said.yaml", run_folder());
    run_write_file(file, YAML);
    snprintf(arguments, sizeof arguments, "train '%s' --runs '%s/said' %s", file, run_folder(),
             more);
    int is = program(variables, arguments, out);
    if (is != status || !strstr(out, text))
        fail_msg("%s %s: status %d, it says: %s", variables, more, is, out);
}

static void refused(void **state) {
    (void)state;
    /* there is none, or no driver */
    said("PENSTOCK_MODULE=", "parallel.device=cuda", 2, "device cuda: ");
    said("PENSTOCK_MODULE=", "parallel.device=far", 2,
         "unknown device 'far'; expected one of cpu, timed, cuda");
    said("PENSTOCK_MODULE=/nowhere.so", "parallel.device=cpu", 0, "");
    said("PENSTOCK_MODULE=/nowhere.so", "log.level=debug", 0, "skipped: /nowhere.so: cannot open");
    said("", "-n 2 parallel.device=far parallel.data=2 parallel.gradients=bf16", 2,
         "parallel.gradients bf16 is supported on CPUs only; use parallel.gradients=fp32 with "
         "device far");
    said("", "-n 2 parallel.device=far parallel.data=2 parallel.compress.up=powersgd", 2,
         "parallel.compress.up: device far does not pack with powersgd; use int8, int4, 2bit or "
         "bf16, or parallel.device=cpu");
    said("FAR_VERSION=99", "parallel.device=auto log.level=debug", 0,
         "was built from a different version");
    said("FAR_MEMORY=100000", "parallel.device=far", 4, " bytes are needed, 100000 are free");
    said("FAR_FAIL=h.1.attn:B:3", "parallel.device=far", 5,
         "rank 0 BW c0 m2: h.1.attn, pass B: far: an illegal");
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    setenv("FAR_BATCH", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),   cmocka_unit_test(several_ranks),
        cmocka_unit_test(slow_links), cmocka_unit_test(whole_parameters),
        cmocka_unit_test(directly),   cmocka_unit_test(resumed),
        cmocka_unit_test(factors),    cmocka_unit_test(generated),
        cmocka_unit_test(refused)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
