/* Updates the prediction from measured steps: scales the cost model's durations so that the mean
 * for each rank and opcode equals the measured mean, and simulates a step again. */
#ifndef PST_METRICS_PREDICTION_H
#define PST_METRICS_PREDICTION_H
#include "metrics/metrics.h"

typedef struct pst_prediction pst_prediction;
/* p is borrowed; the durations in p's training job are overwritten. ENOMEM. All functions: one
 * thread. */
pst_status pst_prediction_open(const pst_prepared *p, pst_prediction **prediction);
void pst_prediction_close(pst_prediction *prediction); /* NULL: nothing */
/* Adds the reports ([n_rank]) of one step. The first step of a process is ignored (cold caches);
 * after the next five, or if memory runs out, the prediction no longer changes. */
void pst_prediction_add(pst_prediction *prediction, const pst_report *report);
/* The next steps run the lists of p, another batch size of the same run, whose durations are
 * overwritten as well. */
void pst_prediction_use(pst_prediction *prediction, const pst_prepared *p);
double pst_prediction_step_s(const pst_prediction *prediction);
double pst_prediction_bubble(const pst_prediction *prediction); /* 0 to 1 */
#endif
