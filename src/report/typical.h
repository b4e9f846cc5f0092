/* A typical step of a run: medians of measured and predicted values, without the first steps, in
 * which the prediction is still updated or the batch is smaller (train.batch_warmup). */
#ifndef PST_REPORT_TYPICAL_H
#define PST_REPORT_TYPICAL_H
#include "report/data.h"

typedef struct {
    double step_ms, predicted_step_ms; /* NaN: not measured */
    double bubble, predicted_bubble;   /* shares of a step */
    double first, last;                /* numbers of the first and last step that count */
} pst_report_typical;

/* run: the run's folder. after: steps up to this number are ignored (they ran before a resume,
 * perhaps on other ranks); 0: none is ignored. EINPUT: no step is left. */
pst_status pst_report_typical_step(const char *run, uint64_t after, pst_report_typical *typical);
/* Index of the first step that counts. */
size_t pst_report_settled(const pst_report_metrics *m);
#endif
