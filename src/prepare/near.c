/* parallel.exchange: whether the replicas of a host add their gradients before these leave the host
 * (pst_job.near). */
#include "prepare/prepare.h"
#include <stdio.h>
#include <string.h>

/* Whether on every stage each `near` adjacent replicas are on one host. */
static int are_near(const pst_prepared *p, uint32_t near) {
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        const pst_grid_place at = pst_grid_at(p->grid, r);
        const uint32_t first = at.replica / near * near;
        if (pst_prepare_host(p, r) !=
            pst_prepare_host(p, pst_grid_rank(p->grid, at.stage, first, at.tensor)))
            return 0;
    }
    return 1;
}

/* Adjacent replicas whose number is a power of two that divides that of an island are a node of the
 * tree over its replicas (compile/share.h): bits do not change. Returns the largest such number on
 * one host; 1: there is none, or an island has only one host. */
static uint32_t most_near(const pst_prepared *p, uint32_t group) {
    uint32_t near = 1;
    while (group % (2 * near) == 0 && are_near(p, 2 * near)) near *= 2;
    return near < group ? near : 1;
}

/* Why the exchange is flat; NULL: it need not be. servers: whether there are any. */
static const char *why_flat(const pst_job_spec *spec, int servers) {
    const struct {
        int given;
        const char *why;
    } row[] = {
        {spec->zero == 2, "parallel.exchange=two-level adds the gradients of a whole step, but "
                          "parallel.zero=2 sends those of every micro-batch; use parallel.zero=1"},
        {spec->up.kind != PST_CODEC_NONE || spec->down.kind != PST_CODEC_NONE,
         "parallel.exchange=two-level sends fp32 gradients and whole weights; use "
         "parallel.compress.up=none and parallel.compress.down=none, or parallel.exchange=flat"},
        {spec->narrow, "parallel.exchange=two-level sends sums, which are fp32; use "
                       "parallel.gradients=fp32, or parallel.exchange=flat"},
        {servers, "parallel.exchange=two-level needs replicas that own what they add, but "
                  "parallel.servers do; omit one of the two"},
        {spec->staleness != 0, "parallel.exchange=two-level adds gradients at the end of a step; "
                               "use parallel.update=sync, or parallel.exchange=flat"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].given) return row[i].why;
    return NULL;
}

const char *pst_prepare_why_flat(const pst_config *c) {
    const char *servers = c->parallel.servers;
    const pst_job_spec spec = {.zero = (int)c->parallel.zero,
                               .up = pst_prepare_codec_up(c),
                               .down = pst_prepare_codec_down(c),
                               .narrow = !strcmp(c->parallel.gradients, "bf16"),
                               .staleness = strcmp(c->parallel.update, "sync") != 0};
    return why_flat(&spec, strcmp(servers, "0") != 0 && strcmp(servers, "auto") != 0);
}

pst_status pst_prepare_near(const pst_prepared *p, pst_job_spec *spec) {
    const char *exchange = p->config->parallel.exchange;
    const char *why = why_flat(spec, p->grid.servers != 0);
    const uint32_t group = p->grid.data / (spec->islands ? spec->islands : 1);
    spec->near = 1;
    if (p->options.infer || group == 1 || !strcmp(exchange, "flat")) return PST_OK;
    if (p->options.flat && !strcmp(exchange, "auto")) return PST_OK;
    const int two_level = !strcmp(exchange, "two-level");
    if (why && two_level)
        return pst_config_at(p->config, "parallel", "exchange", pst_fail(PST_EINPUT, "%s", why));
    if (why || pst_costs_program_is_other(p->options.program)) return PST_OK;
    const uint32_t near = most_near(p, group);
    int shorter = 1;
    if (!two_level && near > 1) PST_TRY(pst_prepare_near_is_shorter(p, near, &shorter));
    if (shorter) spec->near = near;
    return PST_OK;
}

const char *pst_prepare_near_text(const pst_prepared *p, char text[PST_NEAR_TEXT]) {
    const uint32_t near = p->job->near;
    *text = 0;
    if (near > 1)
        snprintf(text, PST_NEAR_TEXT,
                 "two-level: each %u replicas of a host add their gradients before these leave it",
                 near);
    return text;
}

const char *pst_prepare_near_missed(const pst_prepared *p) {
    if (strcmp(p->config->parallel.exchange, "two-level") != 0 || p->job->near > 1) return NULL;
    if (p->grid.data == 1) return "without parallel.data one replica sends no gradients";
    if (pst_job_group(p->job) == 1) return "islands of one replica add no gradients";
    if (are_near(p, p->grid.data)) return "all replicas of a stage are on one host";
    return "no two adjacent replicas of every stage are on one host, or an odd number of replicas "
           "add gradients";
}
