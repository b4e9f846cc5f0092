/* The checks of a verification, except interrupted runs (interrupted.c). */
#include "verify/inside.h"
#include "verify/metrics.h"
#include "verify/optimizer.h"
#include "verify/repeated.h"
#include "verify/verify.h"
#include <inttypes.h>

static const char in_bits[] = "bitwise equal";

/* --- without running -------------------------------------------------------------------------- */

/* The limits of parallel.memory and of the devices of parallel.cluster; not this machine's memory,
 * because the run may be for another one. */
static void check_limit(const pst_config *c, const pst_prepared *p, pst_check *check) {
    uint64_t limit = c->parallel.memory > 0 ? (uint64_t)c->parallel.memory : 0;
    uint32_t rank;
    if (!pst_prepare_excess(p, limit, &rank)) return;
    pst_prepare_fits(p, limit);
    pst_check_fail(check, "%s", pst_error());
    pst_error_clear();
}

/* Of the run itself, not of the small one; pst_prepare proves lists and memory. */
pst_status pst_verify_lists(pst_verifying *v) {
    pst_prepared *p = NULL;
    pst_prepare_options options = {
        .n_rank = v->shape.n_rank, .threads = 1, .plan = v->plan, .smaller = 1};
    options.twins = v->config->elastic.min > 0;
    pst_check *check =
        pst_check_add(&v->table, "instruction lists and memory map", "checked at full size");
    options.isa = pst_prepare_isa_to_inspect(v->config);
    options.n_eval_micro = pst_config_micros(v->config);
    pst_status status = pst_prepare(v->config, &options, &p);
    if (status == PST_EINPUT || status == PST_ENOMEM) return status;
    if (status != PST_OK) {
        pst_check_fail(check, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    uint64_t n = 0, most = 0;
    for (uint32_t r = 0; r < v->shape.n_rank; r++) {
        n += p->job->list[r].n_instr;
        if (p->memory[r]->total > most) most = p->memory[r]->total;
    }
    snprintf(check->detail, sizeof check->detail,
             "%" PRIu64 " instructions of %u ranks, at most %.1f MiB on a rank", n, v->shape.n_rank,
             (double)most / 0x1p20);
    check_limit(v->config, p, check);
    pst_prepared_close(p);
    return PST_OK;
}

/* --- a run in itself -------------------------------------------------------------------------- */

static pst_status check_inside(pst_verifying *v, const pst_recording *run) {
    char name[64];
    pst_comparison reads = {.first = {.found = 0}}, steps = reads;
    snprintf(name, sizeof name, "%s: reads match writes", run->name);
    pst_inside_check(run, &reads);
    pst_check_compared(pst_check_add(&v->table, name, in_bits), &reads);
    const pst_optimizer_of of = {v->config, v->prepared_one->optim, v->prepared_one->whole};
    PST_TRY(pst_optimizer_check(&of, run, &steps));
    snprintf(name, sizeof name, "%s: optimizer steps repeated", run->name);
    pst_check_compared(pst_check_add(&v->table, name, in_bits), &steps);
    return PST_OK;
}

pst_status pst_verify_one(pst_verifying *v) {
    const pst_verify_way way = {.name = "one", .title = "one rank", .keys = &v->one, .n_rank = 1};
    pst_check failed = {.result = PST_CHECK_PASSED};
    PST_TRY(pst_verify_record(v, &way, &failed, &v->of_one));
    if (!v->of_one) return pst_fail(PST_EINPUT, "%s", failed.first);
    return check_inside(v, v->of_one);
}

/* --- two runs --------------------------------------------------------------------------------- */

/* All steps of a run that has to have the reference's bits. joined: the reference has one tensor
 * rank, the run several. */
static void compare_bits(pst_check *check, const pst_recording *run, const pst_recording *reference,
                         int joined) {
    const pst_compare_options all = {
        .end_step = UINT64_MAX, .accumulators = 1, .weights_after = 1, .joined = joined};
    pst_comparison c = {.first = {.found = 0}};
    pst_compare(run, reference, &all, &c);
    pst_check_compared(check, &c);
}

/* Small differences grow from step to step, so single steps are compared: the first one of `run`
 * (NULL: not made), and the last one, from the checkpoint of one rank before it. */
static pst_status compare_near(pst_verifying *v, pst_check *check, const pst_recording *run,
                               pst_verify_way way, pst_compare_options near) {
    char path[PST_VERIFY_PATH];
    pst_recording *again = NULL;
    pst_comparison c = {.first = {.found = 0}};
    near.end_step = 1;
    near.joined = v->shape.tensor > 1;
    if (run) pst_compare(run, v->of_one, &near, &c);
    pst_verify_checkpoint(v, "one", v->shape.steps - 1, path);
    way.resume = path;
    PST_TRY(pst_verify_record(v, &way, check, &again));
    if (again) {
        near.first_step = v->shape.steps - 1;
        near.end_step = v->shape.steps;
        pst_compare(again, v->of_one, &near, &c);
        pst_check_compared(check, &c);
    }
    pst_recording_close(again);
    pst_verify_forget(v, way.name);
    return PST_OK;
}

pst_status pst_verify_tensor_ranks(pst_verifying *v) {
    if (v->shape.tensor < 2 || !v->promise.alone) return PST_OK;
    pst_verify_way way = {.name = "alone",
                          .title = "tensor ranks only",
                          .keys = &v->alone,
                          .n_rank = v->shape.tensor};
    const char *name = "tensor ranks only, against one rank";
    int exact = v->config->parallel.reproducible_tensor != 0;
    const pst_compare_options near = pst_promise_near(&v->promise, 0);
    pst_check *check =
        exact ? pst_check_add(&v->table, name, in_bits)
              : pst_check_add_near(&v->table, name, "tensor ranks add in another order", &near);
    PST_TRY(pst_verify_record(v, &way, check, &v->of_alone));
    if (!v->of_alone) return PST_OK;
    if (exact) {
        compare_bits(check, v->of_alone, v->of_one, 1);
        return PST_OK;
    }
    way.name = "alone-again";
    return compare_near(v, check, v->of_alone, way, near);
}

static void check_memory(pst_verifying *v) {
    pst_check *check = pst_check_add(&v->table, "as configured: memory written",
                                     "no more than predicted, nothing past the end of the arena");
    uint64_t most = 0;
    uint32_t rank = 0;
    char path[PST_VERIFY_PATH];
    snprintf(path, sizeof path, "%.600s/configured/verify/metrics.jsonl", v->folder);
    pst_verify_memory memory;
    if (pst_verify_read_memory(path, &memory) != PST_OK) {
        pst_check_fail(check, "%s", pst_error());
        pst_error_clear();
        return;
    }
    for (uint32_t r = 0; r < memory.n; r++)
        if (memory.peak[r] > most) {
            most = memory.peak[r];
            rank = r;
        }
    for (uint32_t r = 0; r < memory.n; r++)
        if (memory.peak[r] > memory.predicted[r])
            pst_check_fail(check, "rank %u wrote %" PRIu64 " bytes; the prediction is %" PRIu64, r,
                           memory.peak[r], memory.predicted[r]);
    snprintf(check->detail, sizeof check->detail, "%u ranks, at most %.2f MiB (rank %u)", memory.n,
             (double)most / 0x1p20, rank);
}

pst_status pst_verify_configured(pst_verifying *v) {
    const pst_recording *base = v->of_alone ? v->of_alone : v->of_one;
    char name[64];
    pst_verify_way way = {.name = "configured",
                          .title = "as configured",
                          .n_rank = v->shape.n_rank,
                          .takes_fault = 1};
    snprintf(name, sizeof name, "as configured, against %s",
             v->promise.exact ? base->name : "one rank");
    const pst_compare_options near = pst_promise_near(&v->promise, 1);
    pst_check *check = v->promise.exact
                           ? pst_check_add(&v->table, name, in_bits)
                           : pst_check_add_near(&v->table, name, v->promise.why, &near);
    PST_TRY(pst_verify_record(v, &way, check, &v->of_configured));
    if (!v->of_configured) return PST_OK;
    way.name = "configured-again";
    way.takes_fault = 0;
    if (v->promise.exact) compare_bits(check, v->of_configured, base, 0);
    else PST_TRY(compare_near(v, check, v->of_configured, way, near));
    check_memory(v);
    return check_inside(v, v->of_configured);
}

pst_status pst_verify_operators(pst_verifying *v) {
    char path[PST_VERIFY_PATH];
    pst_verify_way way = {
        .name = "operators", .title = "one rank", .keys = &v->one, .n_rank = 1, .repeat = 1};
    pst_check *check = pst_check_add(&v->table, "one rank, each operator against the reference",
                                     "bitwise equality not promised: different kernels; from equal "
                                     "inputs, tolerance %.0e of the largest element",
                                     v->promise.operators);
    pst_recording *run;
    pst_comparison c = {.first = {.found = 0}};
    if (v->promise.gpu) {
        pst_check_skip(check, "the reference cannot read the memory of the device");
        return PST_OK;
    }
    pst_verify_checkpoint(v, "one", v->shape.steps - 1, path);
    way.resume = path;
    PST_TRY(pst_verify_record(v, &way, check, &run));
    if (run) {
        pst_repeated_check(run, v->promise.operators, &c);
        pst_check_compared(check, &c);
    }
    pst_recording_close(run);
    pst_verify_forget(v, way.name);
    return PST_OK;
}

pst_status pst_verify_reference(pst_verifying *v) {
    const pst_verify_way way = {.name = "reference",
                                .title = "reference kernels",
                                .keys = &v->one,
                                .n_rank = 1,
                                .reference = 1};
    const pst_compare_options near = pst_promise_near(&v->promise, 0);
    pst_check *check = pst_check_add_near(&v->table, "reference kernels, against one rank",
                                          "different kernels", &near);
    return compare_near(v, check, NULL, way, near);
}
