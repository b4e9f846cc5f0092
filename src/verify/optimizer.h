/* Repeats the optimizer steps of a recording. */
#ifndef PST_VERIFY_OPTIMIZER_H
#define PST_VERIFY_OPTIMIZER_H
#include "config/config.h"
#include "graph/optim.h"
#include "verify/compare.h"

/* The stored elements of every parameter are stepped by the reference arithmetic (kernels/ref)
 * from the recorded weight, state, gradient sum, learning rate and clip factor, and must have the
 * recorded bits. Finds what is wrong in STEP on one rank, also where the layouts promise no bits:
 * another learning rate or clip factor than the recorded ones, decay of a parameter that has none,
 * states of another parameter, no step at all. *out is added to. Steps that were skipped,
 * and running statistics, are left out. ENOMEM. */
typedef struct {
    const pst_config *config; /* its optimizer and hyper-parameters */
    const pst_optim_row *optim;
    const pst_graph *graph; /* the whole model: which parameters decay */
} pst_optimizer_of;
pst_status pst_optimizer_check(const pst_optimizer_of *of, const pst_recording *run,
                               pst_comparison *out);
#endif
