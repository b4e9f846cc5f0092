/* The number of ranks and their grid: stages, replicas and tensor ranks (pipeline/layout/grid.h).
 */
#include "prepare/layout.h"
#include <inttypes.h>
#include <stdlib.h>

static uint32_t degree(int64_t asked) { return asked ? (uint32_t)asked : 1; }

/* 1: parallel.tensor gives a number for each stage. */
static int is_list(const pst_config *c) { return c->parallel.n_tensors > 1; }

/* Tensor ranks of a stage. */
static uint32_t degree_of(const pst_config *c, uint32_t stage) {
    return is_list(c) ? (uint32_t)strtoul(c->parallel.tensors[stage], NULL, 10)
                      : degree(c->parallel.tensor);
}

/* Summed over the stages of the list. */
static uint32_t listed(const pst_config *c) {
    uint64_t n = 0;
    for (uint32_t s = 0; s < c->parallel.n_tensors; s++) n += degree_of(c, s);
    return n > PST_RANKS_MAX ? PST_RANKS_MAX + 1 : (uint32_t)n;
}

uint32_t pst_prepare_job_ranks(const pst_config *c, uint32_t stages) {
    return is_list(c) ? degree(c->parallel.data) * listed(c) : stages * pst_prepare_lanes(c);
}

static pst_status check_list(const pst_config *c) {
    uint32_t n = c->parallel.n_tensors;
    for (uint32_t s = 0; s < n; s++)
        if (!degree_of(c, s))
            return pst_fail(PST_EINPUT,
                            "parallel.tensor: stage %u has 0 tensor ranks; expected 1 or more", s);
    if (c->parallel.pipeline && c->parallel.pipeline != n)
        return pst_fail(PST_EINPUT,
                        "parallel.tensor has %u numbers, but parallel.pipeline is %" PRId64
                        "; give one number per stage, or one for all stages",
                        n, c->parallel.pipeline);
    return PST_OK;
}

static pst_status ranks_of_list(const pst_config *c, int64_t given, uint32_t *n_rank) {
    uint64_t n = (uint64_t)degree(c->parallel.data) * listed(c);
    PST_TRY(check_list(c));
    if (n > PST_RANKS_MAX)
        return pst_fail(PST_EINPUT,
                        "parallel.data x parallel.tensor is too large; expected at most %d ranks",
                        PST_RANKS_MAX);
    if (given && (uint64_t)given != n)
        return pst_fail(PST_EINPUT,
                        "the job has %" PRId64
                        " ranks, but parallel.data x the sum of parallel.tensor is %u x %u; start "
                        "that many ranks, or omit the number of ranks",
                        given, degree(c->parallel.data), listed(c));
    *n_rank = (uint32_t)n;
    return PST_OK;
}

uint32_t pst_prepare_lanes(const pst_config *c) {
    return degree(c->parallel.data) * degree(c->parallel.tensor);
}

pst_status pst_prepare_ranks(const pst_config *c, int64_t given, uint32_t *n_rank) {
    if (is_list(c)) return ranks_of_list(c, given, n_rank);
    int64_t pipeline = c->parallel.pipeline, lanes = pst_prepare_lanes(c);
    char degrees[160] = "parallel.pipeline is 1";
    if (lanes > 1)
        snprintf(degrees, sizeof degrees,
                 "parallel.pipeline x data x tensor is %" PRId64 " x %u x %u", pipeline,
                 degree(c->parallel.data), degree(c->parallel.tensor));
    else snprintf(degrees, sizeof degrees, "parallel.pipeline is %" PRId64, pipeline);
    int64_t times = pipeline && !(given % (pipeline * lanes)) ? given / (pipeline * lanes) : 1;
    if (given && pipeline && given != pipeline * lanes && times > 1)
        return pst_fail(PST_EINPUT,
                        "the job has %" PRId64 " ranks, but %s; set parallel.data=%" PRId64
                        ", or omit parallel.pipeline or the number of ranks",
                        given, degrees, times * degree(c->parallel.data));
    if (given && pipeline && given != pipeline * lanes)
        return pst_fail(PST_EINPUT,
                        "the job has %" PRId64
                        " ranks, but %s; omit parallel.pipeline, or start %" PRId64 " ranks",
                        given, degrees, pipeline * lanes);
    if (given % lanes)
        return pst_fail(PST_EINPUT,
                        "the job has %" PRId64
                        " ranks; expected a multiple of parallel.data x parallel.tensor, %u x %u",
                        given, degree(c->parallel.data), degree(c->parallel.tensor));
    int64_t n = given;
    if (!n) n = (pipeline ? pipeline : 1) * lanes;
    if (n < 1 || n > PST_RANKS_MAX)
        return pst_fail(PST_EINPUT, "the number of ranks is %" PRId64 "; expected 1 to %d", n,
                        PST_RANKS_MAX);
    *n_rank = (uint32_t)n;
    return PST_OK;
}

/* --- the grid --------------------------------------------------------------------------------- */

static pst_status grid_of_list(const pst_config *c, uint32_t n_rank, pst_layout *l) {
    uint32_t n = c->parallel.n_tensors, ranks, same = 1;
    PST_TRY(ranks_of_list(c, n_rank, &ranks));
    uint32_t *each = calloc(n, sizeof *each), *before = calloc(n + (size_t)1, sizeof *before);
    for (uint32_t s = 0; each && before && s < n; s++) {
        each[s] = degree_of(c, s);
        same &= each[s] == each[0];
    }
    int done = each && before;
    l->pipeline = n;
    l->data = degree(c->parallel.data);
    if (done) l->tensor = pst_grid_prefix_sums(each, n, before);
    free(each);
    if (done && !same) l->tensor_before = before;
    else free(before);
    return done ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a grid of %u stages", n);
}

pst_status pst_prepare_grid(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    uint32_t lanes = pst_prepare_lanes(c);
    if (is_list(c)) return grid_of_list(c, o->n_rank, l);
    if (!o->n_rank || o->n_rank % lanes)
        return pst_fail(
            PST_EINPUT,
            "the job has %u ranks; expected a multiple of parallel.data x parallel.tensor, %u",
            o->n_rank, lanes);
    l->pipeline = o->n_rank / lanes;
    l->data = degree(c->parallel.data);
    l->tensor = degree(c->parallel.tensor);
    return PST_OK;
}
