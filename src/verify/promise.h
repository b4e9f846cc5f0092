/* What the layouts promise (docs/layouts.md, "Same bits"): whether the run as configured has the
 * same bits as a run without stages and replicas, and in how many parts the latter must add
 * gradients. */
#ifndef PST_VERIFY_PROMISE_H
#define PST_VERIFY_PROMISE_H
#include "prepare/prepare.h"
#include "verify/compare.h"
#include "verify/shape.h"

enum { PST_PROMISE_TEXT = 160 };

typedef struct {
    /* number of parts in which the run without replicas adds a step's gradients
     * (parallel.reproducible) */
    uint32_t parts;
    int exact;   /* 1: the run as configured has the same bits as that run */
    int alone;   /* 1: a run with the same tensor ranks, but no stages or replicas, is possible */
    int resumes; /* 1: a resumed run has the same bits as an uninterrupted one */
    char why[PST_PROMISE_TEXT];         /* reason if `exact` is 0 */
    char why_resumes[PST_PROMISE_TEXT]; /* reason if `resumes` is 0 */
    /* largest accepted difference of an element, relative to the largest element of the tensor,
     * where the same bits are not promised; for one step from equal weights */
    double tolerance;
    double gradients; /* the same for gradients: larger if operators have kinks (relu, max_pool),
                         because an input near a kink may be on either side in the two runs */
    int kinks;        /* 1: operators have kinks (pst_compare_options) */
    double sums;      /* the same for sums of gradients of the run as configured: larger if replicas
                         round theirs (parallel.gradients, compress) */
    /* for one operator from equal inputs, whose results are rounded once */
    double operators;
    int gpu; /* 1: the host cannot access the device's memory */
} pst_promise;

/* small: the run as configured with the smaller model; gives the micro-batches of each replica. */
void pst_promise_of(const pst_prepared *small, const pst_shape *shape, pst_promise *promise);
/* For a comparison within these tolerances of one rank, or with `configured` also of the run as
 * configured. The caller sets the steps. */
pst_compare_options pst_promise_near(const pst_promise *promise, int configured);
/* The tolerance of gradients of this model, if that of its activations is `tolerance`. */
double pst_promise_gradients(const pst_graph *graph, double tolerance);
#endif
