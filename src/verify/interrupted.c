/* Runs that are interrupted: resumed in the middle, killed and resumed. */
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "verify/verify.h"
#include <inttypes.h>
#include <string.h>

static void compare(pst_verifying *v, pst_check *check, const pst_recording *run) {
    const pst_compare_options all = {.end_step = UINT64_MAX, .accumulators = 1, .weights_after = 1};
    const pst_compare_options near = pst_promise_near(&v->promise, 1);
    pst_comparison c = {.first = {.found = 0}};
    pst_compare(run, v->of_configured, v->promise.resumes ? &all : &near, &c);
    pst_check_compared(check, &c);
}

static pst_check *add(pst_verifying *v, const char *name) {
    const pst_compare_options near = pst_promise_near(&v->promise, 1);
    if (v->promise.resumes) return pst_check_add(&v->table, name, "bitwise equal");
    return pst_check_add_near(&v->table, name, v->promise.why_resumes, &near);
}

pst_status pst_verify_resumed(pst_verifying *v) {
    char path[PST_VERIFY_PATH];
    pst_recording *run;
    const pst_verify_way way = {
        .name = "resumed", .title = "resumed", .n_rank = v->shape.n_rank, .resume = path};
    if (!v->of_configured) return PST_OK;
    pst_check *check = add(v, "resumed from a checkpoint");
    pst_verify_checkpoint(v, "configured", v->shape.steps / 2, path);
    PST_TRY(pst_verify_record(v, &way, check, &run));
    if (run) compare(v, check, run);
    pst_recording_close(run);
    pst_verify_forget(v, way.name);
    return PST_OK;
}

/* --- killed ----------------------------------------------------------------------------------- */

static uint64_t sends(const pst_instr_list *list) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) n += list->instr[i].opcode == PST_OP_SEND;
    return n;
}

/* A rank that sends messages, and one of those of the third step or about there: collectives count
 * as well. 0: no rank sends any. */
static int choose_victim(const pst_verifying *v, uint32_t *rank, uint64_t *message) {
    const pst_job *job = v->prepared->job;
    uint64_t key = pst_rng_key(v->seed, "killed");
    for (uint32_t tries = 0; tries < 16 * v->shape.n_rank; tries++) {
        uint32_t word[4];
        pst_rng_words(key, 0, tries, word);
        *rank = word[0] % v->shape.n_rank;
        uint64_t n = sends(job->list + *rank);
        if (!n) continue;
        *message = 2 * n + word[1] % n + 1;
        return 1;
    }
    return 0;
}

static int has_checkpoint(const pst_verifying *v, const char *name) {
    char folder[PST_VERIFY_PATH];
    snprintf(folder, sizeof folder, "%.600s/%s/verify/checkpoints", v->folder, name);
    return pst_ckpt_before(folder, 1, UINT64_MAX) != UINT64_MAX;
}

/* Resumes the killed run, or repeats it where it had not saved anything yet. */
static pst_status resume_killed(pst_verifying *v, pst_check *check, pst_verify_way way) {
    char folder[PST_VERIFY_PATH];
    pst_recording *run;
    snprintf(folder, sizeof folder, "%.600s/killed/verify", v->folder);
    way.fault = NULL;
    if (has_checkpoint(v, "killed")) way.resume = folder;
    PST_TRY(pst_verify_record(v, &way, check, &run));
    if (run) compare(v, check, run);
    pst_recording_close(run);
    return PST_OK;
}

pst_status pst_verify_killed(pst_verifying *v) {
    char fault[64];
    uint32_t rank;
    uint64_t message;
    pst_verify_end end;
    const pst_verify_way way = {
        .name = "killed", .title = "killed", .n_rank = v->shape.n_rank, .fault = fault};
    if (!v->of_configured) return PST_OK;
    pst_check *check = add(v, "a rank killed, then resumed");
    if (!choose_victim(v, &rank, &message)) {
        pst_check_skip(check, "no rank sends a message at which it could be killed");
        return PST_OK;
    }
    snprintf(fault, sizeof fault, "kill:rank=%u,message=%" PRIu64, rank, message);
    PST_TRY(pst_verify_make(v, &way, &end));
    if (!end.exit_status)
        pst_check_skip(check, "the run ended before rank %u sent message %" PRIu64, rank, message);
    else PST_TRY(resume_killed(v, check, way));
    if (end.exit_status && check->result == PST_CHECK_PASSED) {
        size_t used = strlen(check->detail);
        snprintf(check->detail + used, sizeof check->detail - used,
                 "; killed rank %u at its message %" PRIu64, rank, message);
    }
    pst_verify_forget(v, way.name);
    return PST_OK;
}
