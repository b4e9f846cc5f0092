/* What a run says at its end: its memory, the time of its steps, measured beside predicted, and
 * where its files are. */
#include "base/log.h"
#include "report/typical.h"
#include "run/announce.h"
#include "run/nonfinite.h"
#include <inttypes.h>
#include <math.h>

enum { FEW = 6 }; /* a run of fewer steps is a quick trial, which needs no explanation */

static void say_times(const pst_trainer *t) {
    pst_report_typical s;
    if (pst_report_typical_step(t->folder, &s) != PST_OK || !isfinite(s.step_ms) ||
        !isfinite(s.predicted_step_ms)) {
        pst_error_clear();
        return; /* metrics that could not be written were said */
    }
    int waits = t->p->grid.pipeline > 1 && isfinite(s.bubble) && isfinite(s.predicted_bubble);
    printf("step time   %.1f ms measured, %.1f ms predicted (medians of steps %.0f to %.0f)\n",
           s.step_ms, s.predicted_step_ms, s.first, s.last);
    if (waits)
        printf("bubble      %.1f%% measured, %.1f%% predicted\n", 100 * s.bubble,
               100 * s.predicted_bubble);
    if (s.last - s.first < FEW) return;
    pst_sharing crowd;
    const char *bubble = "Bubble: the share of a step in which a rank waits for others. ";
    const char *load = "the machine got busier, or less busy, since then";
    if (pst_announce_crowd(t, &crowd))
        load = "ranks take turns on processors (crowded), or the load has changed";
    printf("            %sPredicted: simulated from the first steps.\n", waits ? bubble : "");
    printf("            Measured differs where %s.\n", load);
}

/* Of the rank with the largest arena. What libraries take no layout knows: the process alone
 * tells. */
static void say_memory(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    uint32_t largest = 0;
    for (uint32_t r = 1; r < p->options.n_rank; r++)
        if (p->memory[r]->total > p->memory[largest]->total) largest = r;
    const pst_report *of = t->report + largest;
    printf("memory      rank %u: arena %.1f MiB as predicted, written %.1f", largest,
           (double)p->memory[largest]->total / 0x1p20, (double)of->peak_bytes / 0x1p20);
    if (of->peak_resident_bytes)
        printf("; its process, libraries%s included, at most %.1f MiB resident",
               t->group->n_local > 1 ? " and all ranks" : "",
               (double)of->peak_resident_bytes / 0x1p20);
    putchar('\n');
}

/* No step of this process has changed the weights. A run that goes on may end while the scale of
 * fp16 is still being found: its weights were trained before. */
int pst_announce_changed_nothing(const pst_trainer *t) {
    uint64_t steps = t->step - t->resumed;
    int scaling = t->resumed && t->overflowed;
    return !t->stopped && steps && t->skipped - t->skipped_before == steps && !scaling;
}

void pst_announce_summary(const pst_trainer *t, uint64_t hash, int reported) {
    char work[400], advice[PST_NONFINITE_ADVICE];
    printf("%s after step %" PRIu64, t->stopped ? "stopped" : "done", t->step);
    if (!t->study) printf("; weights %016" PRIx64, hash);
    if (t->skipped) printf("; %" PRIu64 " step%s skipped", t->skipped, t->skipped > 1 ? "s" : "");
    putchar('\n');
    pst_metrics_work_text(t->metrics, work, sizeof work);
    if (t->trained && !t->study) printf("time        %s\n", work);
    if (t->trained && !t->study) say_memory(t);
    if (t->trained) say_times(t);
    printf("metrics     %s/metrics.jsonl\n", t->folder);
    if (t->traced) printf("timeline    %s/timeline.svg, trace.json\n", t->folder);
    if (reported) printf("report      %s/report.html\n", t->folder);
    if (t->checkpointed == t->step && t->step)
        printf("checkpoint  %s/checkpoints/step-%08" PRIu64 "\n", t->folder, t->step);
    fflush(stdout);
    pst_nonfinite_advice(t, advice);
    int fails = pst_announce_changed_nothing(t);    /* and says why */
    if (!fails && t->skipped && !t->scaler.dynamic) /* there it is how the scale is found */
        pst_log(PST_LOG_WARN,
                "%" PRIu64 " of %" PRIu64 " steps were skipped, for they were not finite: %s",
                t->skipped, t->step, advice);
}
