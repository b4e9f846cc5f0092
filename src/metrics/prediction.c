/* See prediction.h. */
#include "metrics/prediction.h"
#include "base/log.h"
#include "pipeline/simulate/async.h"
#include <stdlib.h>

enum { FIT_STEPS = 5 };

struct pst_prediction {
    const pst_prepared *p;
    uint32_t seen, n; /* steps, the first included; those in the sums */
    double step_s, bubble;
    uint64_t (*sum)[PST_OP_COUNT]; /* [n_rank] of mean durations */
};

static void take(pst_prediction *f, const pst_prepared *p, const pst_timing *timing, uint64_t ns) {
    f->p = p;
    f->step_s = (double)ns * 1e-9;
    f->bubble = timing->bubble;
}

pst_status pst_prediction_open(const pst_prepared *p, pst_prediction **prediction) {
    pst_prediction *f = calloc(1, sizeof *f);
    if (f) f->sum = calloc(p->options.n_rank, sizeof *f->sum);
    if (!f || !f->sum) {
        free(f);
        return pst_fail(PST_ENOMEM, "no memory to predict steps");
    }
    take(f, p, p->timing, p->mean_ns);
    *prediction = f;
    return PST_OK;
}

void pst_prediction_close(pst_prediction *prediction) {
    if (!prediction) return;
    free(prediction->sum);
    free(prediction);
}

/* Scales the durations of each opcode (parts of a pass count as one) so that their mean is the
 * measured one. Their ratios stay, because chunks of a rank differ. */
static void set_durations(const pst_prediction *f) {
    for (uint32_t r = 0; r < f->p->options.n_rank; r++) {
        pst_instr_list *list = &f->p->job->list[r];
        uint64_t total[PST_OP_COUNT] = {0};
        uint32_t count[PST_OP_COUNT] = {0};
        for (uint32_t i = 0; i < list->n_instr; i++) {
            total[list->instr[i].opcode] += list->instr[i].ns;
            count[list->instr[i].opcode] += pst_instr_begins(&list->instr[i]);
        }
        for (uint32_t i = 0; i < list->n_instr; i++) {
            pst_instr *in = &list->instr[i];
            double mean = (double)total[in->opcode] / count[in->opcode],
                   measured = (double)f->sum[r][in->opcode] / f->n;
            /* OUTER may not have been measured: it is not in all lists */
            if (pst_queue_computes(in->queue) && in->opcode != PST_OP_OUTER)
                in->ns = (uint64_t)(mean > 0 ? (double)in->ns / mean * measured : measured);
        }
    }
}

/* Simulates a step with the durations measured so far. */
static void simulate(pst_prediction *f) {
    pst_timing *timing = NULL;
    uint64_t ns = 0;
    set_durations(f);
    pst_status status = pst_simulate(f->p->job, &timing);
    if (status == PST_OK) status = pst_simulate_mean(f->p->job, timing, &ns);
    if (status != PST_OK) {
        pst_timing_close(timing);
        pst_log(PST_LOG_WARN, "the prediction is not updated any more: %s", pst_error());
        f->seen = FIT_STEPS + 1;
        return;
    }
    take(f, f->p, timing, ns);
    pst_timing_close(timing);
}

void pst_prediction_add(pst_prediction *f, const pst_report *report) {
    if (f->seen > FIT_STEPS || !f->seen++) return;
    for (uint32_t r = 0; r < f->p->options.n_rank; r++)
        for (int op = 0; op < PST_OP_COUNT; op++) f->sum[r][op] += report[r].op_ns[op];
    f->n++;
    simulate(f);
}

void pst_prediction_use(pst_prediction *f, const pst_prepared *p) {
    if (f->p == p) return;
    take(f, p, p->timing, p->mean_ns);
    if (f->n) simulate(f);
}

double pst_prediction_step_s(const pst_prediction *prediction) { return prediction->step_s; }
double pst_prediction_bubble(const pst_prediction *prediction) { return prediction->bubble; }
