/* What the metrics*.c share. */
#ifndef PST_RUN_METRICS_PARTS_H
#define PST_RUN_METRICS_PARTS_H
#include "run/events.h"
#include "run/metrics.h"
#include <jansson.h>

/* Seconds since 1970. */
double pst_metrics_time(void);
/* metrics_start.c: the line that starts a run (step: 0) or its continuation (steps done before);
 * NULL without memory. */
json_t *pst_metrics_start(const pst_prepared *p, uint64_t step, const pst_peak *peak);

/* metrics_board.c: the same numbers for TensorBoard, below folder/tb. A failure is said once and
 * survived. */
typedef struct {
    pst_events *events;        /* NULL: cannot be written */
    pst_events_scalar *scalar; /* [n_scalar] of a step */
    char (*rank_tag)[64];      /* [n_rank] */
    uint32_t n_rank;
    int complained;
} pst_metrics_board;
void pst_metrics_board_open(const pst_prepared *p, const char *folder, uint64_t step,
                            pst_metrics_board *board);
void pst_metrics_board_close(pst_metrics_board *board);
void pst_metrics_board_step(pst_metrics_board *board, const pst_metrics_step *s,
                            const pst_report *report, double tokens_per_s, double mfu);
/* set: its name, "" the validation split. */
void pst_metrics_board_validation(pst_metrics_board *board, const char *set, uint64_t step,
                                  double loss);
#endif
