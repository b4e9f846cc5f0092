/* test: label=quick timeout=60
 * parallel.collectives: what fast sums are predicted to spare depends on the device and the layout,
 * and where nothing adds fast they are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/status.h"
#include "run/collectives.h"
#include <stdio.h>
#include <string.h>

static pst_config *config;

static pst_prepared *prepared(uint32_t n_rank, const char *parallel) {
    char yaml[600];
    snprintf(yaml, sizeof yaml,
             "model: {kind: gpt, layers: 4, heads: 16, channels: 1024, context: 1024, vocabulary: "
             "50304}\ndata: {kind: text, paths: [x]}\n"
             "train: {batch: 8, micro_batch: 4, precision: bf16}\nparallel: {device: timed, %s}\n",
             parallel);
    pst_prepared *p = NULL;
    const pst_prepare_options options = {.n_rank = n_rank, .threads = 1, .n_eval_micro = 2};
    if (pst_config_parse(yaml, "test", NULL, 0, &config) != PST_OK ||
        pst_prepare(config, &options, &p) != PST_OK)
        fail_msg("%s: %s", parallel, pst_error());
    return p;
}

static double spared(uint32_t n_rank, const char *parallel) {
    pst_prepared *p = prepared(n_rank, parallel);
    double share = pst_collectives_saved_share(p);
    pst_prepared_close(p);
    pst_config_close(config);
    return share;
}

static void depends(void **state) {
    (void)state;
    double eight = spared(8, "tensor: 8, cluster: \"1x8 h100 nvlink:450GB/s\""),
           two = spared(2, "tensor: 2, cluster: \"1x2 h100 nvlink:450GB/s\"");
    assert_true(eight > two && two > 0 && eight < 0.5);
    assert_true(spared(2, "data: 2, cluster: \"1x2 h100 nvlink:450GB/s\"") == 0);
    assert_true(spared(8, "tensor: 8") == 0); /* of CPUs */
}

static void refused(void **state) {
    (void)state;
    pst_prepared *p = prepared(2, "tensor: 2, transport: ucx, collectives: fast");
    assert_int_equal(pst_collectives_check(p), PST_EINPUT);
    pst_prepared_close(p);
    pst_config_close(config);
    p = prepared(2, "data: 2, transport: ucx, collectives: fast");
    assert_int_equal(pst_collectives_check(p), PST_OK);
    pst_prepared_close(p);
    pst_config_close(config);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(depends), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
