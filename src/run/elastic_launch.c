/* Elastic runs before their ranks start: what they cannot be combined with, and with how many ranks
 * they can go on. */
#include "base/log.h"
#include "base/plural.h"
#include "comm/world/elastic.h"
#include "run/elastic.h"
#include "run/setup.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_elastic_needs_ranks(void) {
    return pst_fail(PST_EINPUT,
                    "--elastic (elastic.min): the run has one process, so none is left "
                    "when it dies; start more ranks with -n, without parallel.transport "
                    "self, or set elastic.min=0 elastic.max=0 elastic.spare=0 without --elastic");
}

static pst_status refuse(const char *what, const char *fix) {
    return pst_fail(PST_EINPUT, "--elastic (elastic.min) does not work with %s; %s", what, fix);
}

/* The layout of fewer ranks must follow from their number. */
static pst_status check_layout(const pst_config *c) {
    if (*c->parallel.plan)
        return refuse("parallel.plan, which is for one number of ranks",
                      "set parallel.data, tensor and schedule instead");
    if (c->parallel.n_tensors > 1)
        return refuse("a tensor degree for each stage", "give one parallel.tensor for all stages");
    if (c->parallel.n_devices) return refuse("parallel.devices", "omit this key");
    if (c->parallel.n_throttle) return refuse("parallel.throttle", "omit this key");
    if (strcmp(c->parallel.servers, "0") != 0)
        return refuse("parallel.servers", "use parallel.zero=1");
    if (strcmp(c->parallel.update, "sync") != 0)
        return refuse("parallel.update=delayed, bounded and async", "use parallel.update=sync");
    if (c->parallel.local.steps) return refuse("islands (parallel.local)", "omit parallel.local");
    if (strcmp(c->parallel.compress.stages, "none") != 0)
        return refuse("parallel.compress.stages: the cut into stages, which fewer ranks change, "
                      "decides what is rounded",
                      "use parallel.compress.stages=none");
    return PST_OK;
}

/* Keys that only elastic runs have. */
static pst_status check_unused(const pst_config *c) {
    const char *key = c->elastic.max ? "elastic.max" : "elastic.spare";
    if (!c->elastic.max && !c->elastic.spare) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s is set, but the run is not elastic; add --elastic or elastic.min=1, or set "
                    "elastic.max=0 elastic.spare=0",
                    key);
}

pst_status pst_elastic_check(const pst_config *c, const pst_train_options *o) {
    static const char *const other[] = {"PMIX_RANK", "RANK", "DMLC_ROLE"};
    if (!pst_elastic_is_wanted(c, o)) return check_unused(c);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (getenv(other[i]))
            return refuse("ranks that another launcher starts", "start them with -n");
    if (!o->argv) return refuse("a program that starts no ranks", "use penstock train");
    if (strcmp(c->parallel.device, "auto") != 0 && strcmp(c->parallel.device, "cpu") != 0)
        return refuse("this parallel.device: state in a GPU's memory dies with its process",
                      "use parallel.device=cpu");
    return check_layout(c);
}

static pst_status check_numbers(const pst_config *c, uint32_t n_rank) {
    if (n_rank > PST_ELASTIC_RANKS)
        return pst_fail(PST_EINPUT, "--elastic: %u ranks; an elastic run has at most %d", n_rank,
                        PST_ELASTIC_RANKS);
    if (c->elastic.min > n_rank)
        return pst_fail(PST_EINPUT,
                        "elastic.min is %" PRId64 ", but the run has %u ranks; expected at most %u",
                        c->elastic.min, n_rank, n_rank);
    if (c->elastic.max && c->elastic.max < n_rank)
        return pst_fail(PST_EINPUT,
                        "elastic.max is %" PRId64
                        ", but the run has %u ranks; expected at least %u",
                        c->elastic.max, n_rank, n_rank);
    const int64_t most = c->elastic.max > n_rank ? c->elastic.max : n_rank;
    if (most + c->elastic.spare > PST_ELASTIC_RANKS)
        return pst_fail(PST_EINPUT,
                        "elastic.max is %" PRId64 " and elastic.spare %" PRId64
                        ": an elastic run has at most %d processes",
                        most, c->elastic.spare, PST_ELASTIC_RANKS);
    return PST_OK;
}

/* For ranks on other hosts, of whose memory and processors this machine knows nothing. */
static pst_status prepare_elsewhere(const pst_config *c, pst_prepare_options options,
                                    pst_prepared **p) {
    options.threads = 1;
    options.n_eval_micro = pst_config_micros(c);
    PST_TRY(pst_prepare_kind(c, &options));
    PST_TRY(pst_prepare(c, &options, p));
    return pst_prepare_fits(*p, (uint64_t)c->parallel.memory);
}

/* Whether the run can be prepared for this number of ranks. others: 1: they are on other hosts. */
static pst_status try_ranks(const pst_config *given, uint32_t n_rank, int others) {
    const pst_prepare_options options = {.n_rank = n_rank, .smaller = 1, .twins = 1};
    pst_prepared *p = NULL;
    pst_config *c;
    PST_TRY(pst_config_copy(given, &c));
    pst_status status =
        given->parallel.pipeline ? pst_config_override(c, "parallel", "pipeline", "0") : PST_OK;
    if (status == PST_OK && others) status = prepare_elsewhere(c, options, &p);
    else if (status == PST_OK) status = pst_setup_plan(c, options, NULL, &p);
    if (status == PST_OK && strcmp(p->options.device->name, "cpu") != 0)
        status =
            refuse("a GPU: state in its memory dies with its process", "use parallel.device=cpu");
    pst_prepared_close(p);
    pst_config_close(c);
    return status;
}

uint32_t pst_elastic_min(const pst_config *c) {
    return c->elastic.min ? (uint32_t)c->elastic.min : 1;
}

uint32_t pst_elastic_max(const pst_config *c) {
    return c->elastic.max ? (uint32_t)c->elastic.max
                          : PST_ELASTIC_RANKS - (uint32_t)c->elastic.spare;
}

pst_status pst_elastic_find_ranks(const pst_config *c, uint32_t from, uint32_t to, int others,
                                  uint32_t *ranks_of) {
    const uint32_t lanes = pst_prepare_lanes(c), min = pst_elastic_min(c);
    pst_status status = PST_OK;
    for (uint32_t n = from; n <= to; n++) {
        ranks_of[n] = n >= min ? ranks_of[n - 1] : 0;
        if (n < min) continue;
        status = n % lanes ? pst_fail(PST_EINPUT,
                                      "%u is not a multiple of parallel.data x parallel.tensor, %u",
                                      n, lanes)
                           : try_ranks(c, n, others);
        if (status == PST_OK) ranks_of[n] = n;
    }
    return status;
}

/* Fills ranks_of (comm/world/elastic.h): [n_rank + 1]. EINPUT: the run can neither lose a rank nor
 * get more. */
static pst_status find_ranks(const pst_config *c, uint32_t n_rank, int others, uint32_t *ranks_of) {
    const uint32_t lanes = pst_prepare_lanes(c), most = (uint32_t)c->elastic.max / lanes * lanes;
    const int can_grow = c->elastic.spare || most > n_rank;
    pst_fail(PST_EINPUT, "elastic.min is %u", pst_elastic_min(c));
    pst_elastic_find_ranks(c, 1, n_rank - 1, others, ranks_of); /* pst_error() says why not */
    ranks_of[n_rank] = n_rank;
    if (ranks_of[n_rank - 1] || can_grow) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "--elastic: the run cannot lose a rank: %s; use more ranks, elastic.spare, or "
                    "omit --elastic",
                    pst_error());
}

/* Below elastic.min, as many ranks as there must at least be. */
static pst_status begin(const pst_config *c, const pst_train_options *o, uint32_t n_rank,
                        int others, uint32_t *ranks_of) {
    PST_TRY(check_numbers(c, n_rank));
    PST_TRY(find_ranks(c, n_rank, others, ranks_of));
    pst_error_clear();
    const uint32_t fewer = ranks_of[n_rank - 1];
    if (!o->quiet && fewer && fewer < n_rank - 1 && !c->elastic.spare)
        printf("elastic: after the loss of a rank the run goes on with %u rank%s\n", fewer,
               pst_plural(fewer));
    fflush(stdout);
    return PST_OK;
}

pst_status pst_elastic_launch(const pst_config *c, const pst_train_options *o, uint32_t n_rank,
                              pst_launch_end *end) {
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1] = {0};
    PST_TRY(begin(c, o, n_rank, 0, ranks_of));
    const pst_launch_elastic job = {.ranks = n_rank,
                                    .spares = (uint32_t)c->elastic.spare,
                                    .min = pst_elastic_min(c),
                                    .max = pst_elastic_max(c),
                                    .ranks_of = ranks_of};
    return pst_launch_local_elastic(&job, o->argv, 3000, end);
}

/* Whether every replica has all that the others have. What codecs leave out differs, and running
 * statistics are of the samples of a replica. */
static pst_elastic_copies copies_of(const pst_config *c) {
    const int all = !c->parallel.zero && !strcmp(c->parallel.compress.up, "none") &&
                    strcmp(c->model.kind, "resnet") != 0;
    const uint32_t data = (uint32_t)c->parallel.data, tensor = (uint32_t)c->parallel.tensor;
    return (pst_elastic_copies){all && data ? data : 1, tensor ? tensor : 1};
}

pst_status pst_elastic_launch_hosts(const pst_config *c, const pst_train_options *o,
                                    pst_hosts *hosts, uint32_t n_rank, pst_launch_end *end) {
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1] = {0};
    const pst_launch_hosts_options options = {n_rank, (uint32_t)c->parallel.wait, ranks_of,
                                              copies_of(c)};
    if (c->elastic.spare || c->elastic.max > n_rank)
        return refuse("--hostfile and elastic.spare, or an elastic.max above the number of ranks: "
                      "on several hosts no rank can join later",
                      "set elastic.max=0 elastic.spare=0");
    PST_TRY(begin(c, o, n_rank, 1, ranks_of));
    return pst_launch_hosts(hosts, &options, o->argv, end);
}
