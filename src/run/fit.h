/* The prediction that learns: the cost model's durations are scaled so that their means per rank
 * and opcode are those that were measured, and the simulator gives the step time and the bubble of
 * the steps to come. */
#ifndef PST_RUN_FIT_H
#define PST_RUN_FIT_H
#include "run/metrics.h"

typedef struct pst_fit pst_fit;
/* p is borrowed; the durations in its training job are overwritten. ENOMEM. Every function here:
 * one thread. */
pst_status pst_fit_open(const pst_prepared *p, pst_fit **fit);
void pst_fit_close(pst_fit *fit); /* NULL: nothing */
/* Takes the reports ([n_rank]) of one step. The first of a process is passed over (caches are
 * cold); after 5 more, or when memory is short, the prediction stays as it is. */
void pst_fit_add(pst_fit *fit, const pst_report *report);
double pst_fit_step_s(const pst_fit *fit);
double pst_fit_bubble(const pst_fit *fit); /* 0 to 1 */
#endif
