/* What the layouts promise (docs/layouts.md, "Same bits"): whether the run as configured has the
 * same bits as a run without stages and replicas, and in how many parts the latter must add
 * gradients. */
#ifndef PST_VERIFY_PROMISE_H
#define PST_VERIFY_PROMISE_H
#include "graph/graph.h"
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
    /* for one operator from equal inputs, whose results are rounded once */
    double operators;
    int gpu;          /* 1: the host cannot access the device's memory */
    double gradients; /* the same for gradients: larger if operators have kinks (relu, max_pool),
                         because an input near a kink may be on either side in the two runs */
} pst_promise;

void pst_promise_of(const pst_config *config, const pst_shape *shape, pst_promise *promise);
/* Sets `gradients` for this model. */
void pst_promise_gradients(const pst_graph *graph, pst_promise *promise);
#endif
