/* What a run prints at its end: its memory, measured and predicted times of its steps, and the
 * paths of its files. */
#include "base/log.h"
#include "report/typical.h"
#include "run/announce.h"
#include "run/nonfinite.h"
#include <inttypes.h>
#include <math.h>

enum { MIN_EXPLAINED = 6 }; /* a shorter run is a quick trial, which needs no explanation */

static void print_times(const pst_trainer *t) {
    pst_report_typical s;
    if (pst_report_typical_step(t->folder, t->resumed, &s) != PST_OK || !isfinite(s.step_ms) ||
        !isfinite(s.predicted_step_ms)) {
        pst_error_clear();
        return; /* errors in writing metrics were reported */
    }
    int waits = t->p->grid.pipeline > 1 && isfinite(s.bubble) && isfinite(s.predicted_bubble);
    printf("step time   %.1f ms measured, %.1f ms predicted (medians of steps %.0f to %.0f)\n",
           s.step_ms, s.predicted_step_ms, s.first, s.last);
    if (waits)
        printf("bubble      %.1f%% measured, %.1f%% predicted\n", 100 * s.bubble,
               100 * s.predicted_bubble);
    if (s.last - s.first < MIN_EXPLAINED) return;
    pst_sharing sharing;
    const char *bubble = "Bubble: the share of a step in which a rank waits for others. ";
    const char *load = "the load of the machine has changed since those steps";
    if (pst_announce_oversubscribed(t, &sharing))
        load = "processors are oversubscribed, or the load has changed";
    printf("            %sPredicted: simulated with durations measured in the first steps.\n",
           waits ? bubble : "");
    printf("            Measured values differ from predicted ones if %s.\n", load);
}

/* Of the rank with the largest arena. The memory of libraries is not in the layout, so it is
 * measured for the process. */
static void print_memory(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    uint32_t largest = 0;
    for (uint32_t r = 1; r < p->options.n_rank; r++)
        if (p->memory[r]->total > p->memory[largest]->total) largest = r;
    const pst_report *of = t->report + largest;
    printf("memory      rank %u: arena %.1f MiB as predicted, %.1f MiB of it written", largest,
           (double)p->memory[largest]->total / 0x1p20, (double)of->peak_bytes / 0x1p20);
    if (of->peak_resident_bytes)
        printf("; peak resident memory of the process, with libraries%s, %.1f MiB",
               t->group->n_local > 1 ? " and all ranks" : "",
               (double)of->peak_resident_bytes / 0x1p20);
    putchar('\n');
}

/* If a resumed run ends while the fp16 loss scale is still being found, its steps may all be
 * skipped, but its weights were trained before. */
int pst_announce_changed_nothing(const pst_trainer *t) {
    uint64_t steps = t->step - t->resumed;
    int scaling = t->resumed && t->overflowed;
    return !t->stopped && !t->end && steps && t->skipped - t->skipped_before == steps && !scaling;
}

void pst_announce_summary(const pst_trainer *t, uint64_t hash, int reported) {
    char work[400], advice[PST_NONFINITE_ADVICE];
    static const char *const end[] = {[PST_END_NONE] = "done",
                                      [PST_END_TIME] = "time limit reached",
                                      [PST_END_PATIENCE] = "no better validation loss: ended",
                                      [PST_END_ORDER] = "end of the order reached"};
    printf("%s after step %" PRIu64, t->stopped ? "stopped" : end[t->end], t->step);
    if (!t->times_only) printf("; weights %016" PRIx64, hash);
    if (t->skipped) printf("; %" PRIu64 " step%s skipped", t->skipped, t->skipped > 1 ? "s" : "");
    putchar('\n');
    pst_metrics_work_text(t->metrics, work, sizeof work);
    if (t->trained && !t->times_only) printf("time        %s\n", work);
    if (t->trained && !t->times_only) print_memory(t);
    if (t->trained) print_times(t);
    printf("metrics     %s/metrics.jsonl\n", t->folder);
    if (t->traced) printf("timeline    %s/timeline.svg, trace.json\n", t->folder);
    if (reported) printf("report      %s/report.html\n", t->folder);
    if (t->checkpointed == t->step && t->step)
        printf("checkpoint  %s/checkpoints/step-%08" PRIu64 "\n", t->folder, t->step);
    fflush(stdout);
    pst_nonfinite_advice(t, advice);
    int fails = pst_announce_changed_nothing(t);    /* the run fails, with a message of its own */
    if (!fails && t->skipped && !t->scaler.dynamic) /* dynamic: skipped steps are part of finding
                                                       the scale */
        pst_log(PST_LOG_WARN,
                "%" PRIu64 " of %" PRIu64
                " steps were skipped, because the loss or a gradient was not finite: %s",
                t->skipped, t->step, advice);
}
