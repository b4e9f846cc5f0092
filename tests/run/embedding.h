/* The token embedding in a run's checkpoint. */
#ifndef TESTS_RUN_EMBEDDING_H
#define TESTS_RUN_EMBEDDING_H
#include "checkpoint/checkpoint.h"
#include "run/runs_assert.h"

/* out: its n elements after `step`. */
static inline void read_embedding(const run_result *r, int step, float *out, uint64_t n) {
    char path[700];
    pst_ckpt *c = NULL;
    if (r->exit_status) fail_msg("%s", pst_error());
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", r->folder, step);
    if (pst_ckpt_open(path, &c) != PST_OK) fail_msg("%s", pst_error());
    if (pst_ckpt_read(c, "wte.weight", out, n) != PST_OK) fail_msg("%s", pst_error());
    pst_ckpt_close(c);
}
#endif
