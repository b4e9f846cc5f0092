/* The number of ranks and their grid: stages, replicas, tensor ranks and servers
 * (pipeline/layout/grid.h). */
#include "base/plural.h"
#include "prepare/layout.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
    const uint32_t ranks =
        is_list(c) ? degree(c->parallel.data) * listed(c) : stages * pst_prepare_lanes(c);
    return ranks + pst_prepare_servers(c, 0);
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

/* Without servers. */
static pst_status replica_ranks(const pst_config *c, int64_t given, uint32_t *n_rank) {
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

/* --- servers ---------------------------------------------------------------------------------- */

static int is_auto(const pst_config *c) { return !strcmp(c->parallel.servers, "auto"); }

static pst_status fail_servers(const pst_config *c, pst_status status) {
    return pst_config_at(c, "parallel", "servers", status);
}

/* The configured number; auto: 0. */
static pst_status configured(const pst_config *c, uint32_t *n) {
    const char *text = c->parallel.servers;
    *n = 0;
    if (is_auto(c)) return PST_OK;
    if (pst_prepare_whole("parallel.servers", text, 0, PST_RANKS_MAX, n) == PST_OK) return PST_OK;
    return fail_servers(c, pst_fail(PST_EINPUT,
                                    "parallel.servers: expected auto or a whole number from 0 to "
                                    "%d, found '%.40s'",
                                    PST_RANKS_MAX, text));
}

pst_status pst_prepare_check_servers(const pst_config *c) {
    const char *why = NULL;
    if (c->parallel.zero == 2)
        why = "parallel.servers own whole gradients and optimizer states, as parallel.zero=1 does; "
              "use parallel.zero=1";
    else if (c->parallel.local.steps)
        why = "parallel.servers add gradients in every step, but with parallel.local replicas "
              "exchange none; use one of the two";
    else if (strcmp(c->parallel.compress.up, "none") != 0)
        why = "parallel.servers add gradients in fp32 or bf16; use parallel.compress.up=none, or "
              "omit parallel.servers";
    else if (strcmp(c->parallel.compress.down, "none") != 0)
        why = "parallel.servers send weights, not packed changes; use parallel.compress.down=none, "
              "or omit parallel.servers";
    return why ? fail_servers(c, pst_fail(PST_EINPUT, "%s", why)) : PST_OK;
}

static pst_status check_servers(const pst_config *c, uint32_t n) {
    if (!n) return PST_OK;
    if (degree(c->parallel.data) < 2)
        return fail_servers(c, pst_fail(PST_EINPUT, "parallel.servers needs parallel.data of 2 or "
                                                    "more: one replica has no gradients to add"));
    return pst_prepare_check_servers(c);
}

/* Stages x tensor ranks of a replica, of a job whose replicas have so many ranks. */
static uint32_t ranks_of_replica(const pst_config *c, uint32_t ranks) {
    return ranks / degree(c->parallel.data);
}

static pst_status check_number(const pst_config *c, uint32_t ranks, uint32_t n) {
    const uint32_t each = ranks_of_replica(c, ranks);
    PST_TRY(check_servers(c, n));
    if (n % each)
        return fail_servers(
            c,
            pst_fail(PST_EINPUT,
                     "%u server%s for %u ranks of each replica (stages x tensor ranks); expected "
                     "a multiple: every one of these has its own servers",
                     n, pst_plural(n), each));
    return ranks + n <= PST_RANKS_MAX
               ? PST_OK
               : pst_fail(PST_EINPUT, "the number of ranks is %u; expected 1 to %d", ranks + n,
                          PST_RANKS_MAX);
}

/* parallel.servers auto: of `given` ranks, those that the degrees leave. */
static pst_status ranks_of_auto(const pst_config *c, int64_t given, uint32_t *n_rank) {
    uint32_t ranks;
    if (!given)
        return fail_servers(c, pst_fail(PST_EINPUT, "parallel.servers auto needs a number of ranks "
                                                    "(-n): those that replicas leave are servers"));
    PST_TRY(replica_ranks(c, 0, &ranks));
    if (given < ranks)
        return pst_fail(PST_EINPUT,
                        "the job has %" PRId64 " rank%s, but its replicas have %u; start more",
                        given, pst_plural((uint64_t)given), ranks);
    PST_TRY(check_number(c, ranks, (uint32_t)given - ranks));
    *n_rank = (uint32_t)given;
    return PST_OK;
}

pst_status pst_prepare_ranks(const pst_config *c, int64_t given, uint32_t *n_rank) {
    uint32_t n, ranks;
    if (is_auto(c)) return ranks_of_auto(c, given, n_rank);
    PST_TRY(configured(c, &n));
    if (given && given <= n)
        return fail_servers(c,
                            pst_fail(PST_EINPUT,
                                     "the job has %" PRId64 " ranks, but %u servers; servers are "
                                     "ranks in addition to those of the replicas",
                                     given, n));
    pst_status status = replica_ranks(c, given ? given - n : 0, &ranks);
    if (status != PST_OK && given && n)
        return pst_fail(status, "of %" PRId64 " ranks %u %s: without %s, %s", given, n,
                        n == 1 ? "is a server" : "are servers", n == 1 ? "it" : "them",
                        pst_error());
    PST_TRY(status);
    PST_TRY(check_number(c, ranks, n));
    *n_rank = ranks + n;
    return PST_OK;
}

uint32_t pst_prepare_servers(const pst_config *c, uint32_t n_rank) {
    uint32_t n, ranks;
    if (!is_auto(c)) return configured(c, &n) == PST_OK ? n : 0;
    return replica_ranks(c, 0, &ranks) == PST_OK && ranks < n_rank ? n_rank - ranks : 0;
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

static pst_status grid_of_replicas(const pst_config *c, uint32_t n_rank, pst_layout *l) {
    uint32_t lanes = pst_prepare_lanes(c);
    if (is_list(c)) return grid_of_list(c, n_rank, l);
    if (!n_rank || n_rank % lanes)
        return pst_fail(
            PST_EINPUT,
            "the job has %u rank%s; expected a multiple of parallel.data x parallel.tensor, %u",
            n_rank, pst_plural(n_rank), lanes);
    l->pipeline = n_rank / lanes;
    l->data = degree(c->parallel.data);
    l->tensor = degree(c->parallel.tensor);
    return PST_OK;
}

pst_status pst_prepare_grid(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    const uint32_t n = pst_prepare_servers(c, o->n_rank);
    PST_TRY(grid_of_replicas(c, o->n_rank > n ? o->n_rank - n : 0, l));
    PST_TRY(check_number(c, o->n_rank - n, n));
    l->servers = n / ranks_of_replica(c, o->n_rank - n);
    return PST_OK;
}
