/* Repeats the optimizer updates of a recording. */
#ifndef PST_VERIFY_OPTIMIZER_H
#define PST_VERIFY_OPTIMIZER_H
#include "config/config.h"
#include "graph/optim.h"
#include "verify/compare.h"

/* Repeats the update of the stored elements of every parameter with the reference kernels
 * (kernels/ref), from the recorded weight, optimizer state, gradient sum, learning rate and clip
 * factor; the result must equal the recorded bits. Finds errors of STEP on a rank, also in layouts
 * that do not promise the same bits: another learning rate or clip factor than the recorded one,
 * weight decay of a parameter that must not decay, optimizer state of another parameter, a missing
 * update. Adds the results to *out. Skipped steps and running statistics are not checked.
 * ENOMEM. */
typedef struct {
    const pst_config *config; /* gives the hyper-parameters */
    const pst_optim_row *optim;
    const pst_graph *graph; /* the unsplit model; says which parameters decay */
} pst_optimizer_of;
pst_status pst_optimizer_check(const pst_optimizer_of *of, const pst_recording *run,
                               pst_comparison *out);
#endif
