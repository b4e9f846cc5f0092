/* What the layouts promise (docs/layouts.md, "Same bits"): whether the run as configured has the
 * bits of a run without stages and replicas, and how that one has to add. */
#ifndef PST_VERIFY_PROMISE_H
#define PST_VERIFY_PROMISE_H
#include "graph/graph.h"
#include "verify/shape.h"

enum { PST_PROMISE_TEXT = 160 };

typedef struct {
    /* parts in which the run without replicas adds a step's gradients (parallel.reproducible) */
    uint32_t parts;
    int exact;   /* the run as configured has its bits */
    int alone;   /* tensor ranks: there is a run with the same ones, but no stages or replicas */
    int resumes; /* a resumed run has the bits of one that was not interrupted */
    char why[PST_PROMISE_TEXT];         /* `exact` is 0: why */
    char why_resumes[PST_PROMISE_TEXT]; /* `resumes` is 0: why */
    /* largest difference of an element, relative to the largest of its tensor, where bits are not
     * promised; for one step from equal weights */
    double tolerance;
    double gradients; /* the same of gradients: larger where the model has kinks, because a number
                         near one may fall on either side */
} pst_promise;

void pst_promise_of(const pst_config *config, const pst_shape *shape, pst_promise *promise);
/* Sets `gradients` for a model: relu and max_pool have kinks. */
void pst_promise_gradients(const pst_graph *graph, pst_promise *promise);
#endif
