/* Shared by the files of src/metrics. */
#ifndef PST_METRICS_PARTS_H
#define PST_METRICS_PARTS_H
#include "metrics/events.h"
#include "metrics/metrics.h"
#include <jansson.h>

/* Seconds since 1970. */
double pst_metrics_time(void);
/* start.c: the line that begins a run (step 0) or a resumed run (step: steps done before). The
 * caller owns it. NULL: no memory. */
json_t *pst_metrics_start(const pst_prepared *p, uint64_t step, const pst_peak *peak);

/* tensorboard.c: writes the numbers of metrics.jsonl for TensorBoard, in folder/tb. A failure is
 * logged once; training continues. */
typedef struct {
    pst_events *events;        /* NULL: cannot write */
    pst_events_scalar *scalar; /* [n_scalar] values of a step */
    char (*rank_tag)[64];      /* [n_rank] */
    uint32_t n_rank;
    int complained;
} pst_tensorboard;
void pst_tensorboard_open(const pst_prepared *p, const char *folder, uint64_t step,
                          pst_tensorboard *t);
void pst_tensorboard_close(pst_tensorboard *t);
void pst_tensorboard_step(pst_tensorboard *t, const pst_metrics_step *s, const pst_report *report,
                          double tokens_per_s, double mfu);
/* set: name of the evaluation set; "": the validation split. Nothing if e has no tokens. */
void pst_tensorboard_validation(pst_tensorboard *t, const char *set, uint64_t step,
                                const pst_evaluation *e);
#endif
