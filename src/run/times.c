/* What a run says at its end of the time of its steps: measured beside predicted, and what these
 * words mean. */
#include "base/status.h"
#include "report/typical.h"
#include "run/announce.h"
#include <math.h>

enum { FEW = 6 }; /* a run of fewer steps is a quick trial, which needs no explanation */

void pst_times_say(const pst_trainer *t) {
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
