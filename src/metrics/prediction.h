/* Updates the prediction from measured steps: scales the cost model's durations so that their
 * means per rank and opcode are the measured ones, and simulates the remaining steps' time and
 * bubble. */
#ifndef PST_METRICS_PREDICTION_H
#define PST_METRICS_PREDICTION_H
#include "metrics/metrics.h"

typedef struct pst_prediction pst_prediction;
/* p is borrowed; the durations in its training job are overwritten. ENOMEM. All functions: one
 * thread. */
pst_status pst_prediction_open(const pst_prepared *p, pst_prediction **prediction);
void pst_prediction_close(pst_prediction *prediction); /* NULL: nothing */
/* Takes the reports ([n_rank]) of one step. The first step of a process does not count (caches
 * are cold); after 5 more, or if memory runs out, the prediction stays as it is. */
void pst_prediction_add(pst_prediction *prediction, const pst_report *report);
double pst_prediction_step_s(const pst_prediction *prediction);
double pst_prediction_bubble(const pst_prediction *prediction); /* 0 to 1 */
#endif
