/* Parameter servers in plans (parallel.servers). The search divides the devices that servers leave
 * among replicas, and takes exchanges to be as short as any number of servers makes them; a layout
 * that it finds gets its servers when it is compiled and simulated, on devices that it does not
 * use. `auto`: a search for each number of servers. planning/planning.h declares it. */
#include "base/plural.h"
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

/* Of the time of an exchange without servers: n / 2(n - 1) with as many servers as replicas. */
#define LEAST_SHARE 0.5

static pst_status refuse(const pst_planning *x, const char *why) {
    return pst_config_at(x->config, "parallel", "servers", pst_fail(PST_EINPUT, "%s", why));
}

/* The number of servers of the run file; *any: it is auto. */
static pst_status read_servers(const pst_planning *x, uint32_t *n, int *any) {
    const char *text = x->config->parallel.servers;
    *any = !strcmp(text, "auto");
    *n = 0;
    if (!*any)
        PST_TRY(pst_config_at(x->config, "parallel", "servers",
                              pst_prepare_whole("parallel.servers", text, 0, PST_RANKS_MAX, n)));
    if (!*n && !*any) return PST_OK;
    if (x->all_ranks)
        return refuse(x, "parallel.plan auto chooses layouts without servers; write a plan with "
                         "penstock plan, or use parallel.servers=0");
    if (x->unverified || strcmp(x->program.name, "penstock") != 0)
        return refuse(x, "parallel.servers are ranks of penstock, not of other programs; use "
                         "parallel.servers=0");
    return pst_prepare_check_servers(x->config);
}

/* --- a layout --------------------------------------------------------------------------------- */

/* The first device from *next on that the layout does not use. */
static uint32_t take_unused(const pst_layout *l, uint32_t *next) {
    const uint32_t ranks = pst_grid_size(pst_layout_grid(l));
    for (;; ++*next) {
        int used = 0;
        for (uint32_t r = 0; r < ranks; r++) used |= l->device[r] == *next;
        if (!used) return (*next)++;
    }
}

/* per_place: servers of each stage and tensor rank. */
static pst_status extend(pst_layout *l, uint32_t per_place) {
    const pst_grid was = pst_layout_grid(l);
    pst_grid is = was;
    uint32_t next = 0;
    is.servers = per_place;
    uint32_t *device = calloc(pst_grid_size(is), sizeof *device);
    if (!device) return pst_no_memory("to plan");
    for (uint32_t s = 0; s < is.pipeline; s++)
        for (uint32_t k = 0; k < pst_grid_owners(is); k++)
            for (uint32_t t = 0; t < is.tensor; t++)
                device[pst_grid_rank(is, s, k, t)] =
                    k < is.data ? l->device[pst_grid_rank(was, s, k, t)] : take_unused(l, &next);
    free(l->device);
    l->device = device;
    l->servers = per_place;
    return PST_OK;
}

pst_status pst_planning_add_servers(const pst_planning *x, pst_candidate *c) {
    pst_layout *l = &c->layout;
    const uint32_t places = l->pipeline * l->tensor;
    if (!x->servers || l->servers) return PST_OK;
    if (l->tensor_before)
        return pst_fail(PST_EINPUT, "infeasible: servers need equal tensor degrees of all stages");
    if (x->servers % places)
        return pst_fail(PST_EINPUT,
                        "infeasible: %u servers for %u stages x tensor ranks, each of which needs "
                        "as many",
                        x->servers, places);
    return extend(l, x->servers / places);
}

/* --- the search ------------------------------------------------------------------------------- */

/* What an exchange of the run file takes without servers; the devices of all ranks. */
typedef struct {
    uint32_t devices;
    double share, bytes; /* pst_search_problem.sum_share, change_bytes */
} whole;

static pst_status choose_space(pst_planning *x, const whole *all, uint32_t servers) {
    x->servers = servers;
    x->cluster->n_device = all->devices - servers;
    x->problem.sum_share = servers ? all->share * LEAST_SHARE : all->share;
    x->problem.two_level = !servers && strcmp(x->config->parallel.exchange, "flat") != 0 &&
                           !pst_prepare_why_flat(x->config);
    if (servers) x->problem.change_bytes = LEAST_SHARE * x->problem.weight_bytes;
    else x->problem.change_bytes = all->bytes;
    return pst_planning_search_space(x);
}

/* Keeps the better result in x. */
static void keep(pst_planning *x, pst_search_result *result, uint32_t servers, uint32_t *best) {
    const pst_search_result *was = x->result;
    const int better =
        !was || (result->best && (!was->best || result->best->step_ns < was->best->step_ns));
    if (x->n_tried < PST_PLANNING_SERVERS && result->best)
        x->tried[x->n_tried++] = (pst_planning_servers){servers, result->best->step_ns};
    if (better) *best = servers;
    pst_search_result_close(better ? x->result : result);
    if (better) x->result = result;
}

/* Numbers of servers up to half of the devices: more than replicas do not help. */
static pst_status search_all(pst_planning *x, const whole *all) {
    const uint32_t most = all->devices / 2, step = most / PST_PLANNING_SERVERS + 1;
    const double limit = x->problem.time_limit_s;
    uint32_t best = 0;
    x->problem.time_limit_s = limit * step / (most + 1);
    for (uint32_t n = 0; n <= most; n += step) {
        pst_search_result *result = NULL;
        pst_status status = choose_space(x, all, n);
        if (status == PST_OK) status = pst_search(&x->problem, &result);
        if (status == PST_EINPUT && n) { /* no such layout */
            pst_error_clear();
            continue;
        }
        PST_TRY(status);
        keep(x, result, n, &best);
    }
    x->problem.time_limit_s = limit;
    return choose_space(x, all, best);
}

pst_status pst_planning_search_servers(pst_planning *x) {
    const uint32_t devices = x->cluster->n_device;
    const whole all = {devices, x->problem.sum_share, x->problem.change_bytes};
    uint32_t servers;
    int any;
    PST_TRY(read_servers(x, &servers, &any));
    if (any) return search_all(x, &all);
    if (servers && servers + 2 > devices)
        return pst_config_at(
            x->config, "parallel", "servers",
            pst_fail(PST_EINPUT,
                     "%u server%s and two replicas need %u devices, but there are only %u", servers,
                     pst_plural(servers), servers + 2, devices));
    PST_TRY(choose_space(x, &all, servers));
    return pst_search(&x->problem, &x->result);
}
