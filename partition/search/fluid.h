/* Lower bound on the step of a configuration over all cuts, for a pipeline whose devices are known.
 * A fluid model of the layers is divided among the chunks so that the longest path through the
 * schedule is shortest (a linear program, solved with the paths that turn out to be longest). The
 * weights of these paths then give a bound over whole cuts, as in bound.c: the longest path is at
 * least any mean of paths. */
#ifndef PST_PARTITION_SEARCH_FLUID_H
#define PST_PARTITION_SEARCH_FLUID_H
#include "partition/search/price.h"

/* One stage of the pipeline, on the devices of one replica. Times in ns, per element of parameters;
 * sum: of gradients, gather: of weights. */
typedef struct {
    const pst_search_table *table;
    double speed, sum, norm, gather, step;
    uint64_t capacity; /* bytes; UINT64_MAX: no limit */
} pst_search_fluid_stage;

/* m: micro-batches; first: the first one, as a part of a whole one. hop: [n_chunk] least ns of a
 * message from a chunk to the next one. */
typedef struct {
    uint32_t m;
    double first;
    pst_search_fluid_stage *stage; /* [pipeline] */
    double *hop;
} pst_search_pipeline;

/* Sets *bound_ns to a lower bound over all cuts, 0 if nothing is known; stops when it is at least
 * enough_ns. Adds its effort to x->order_effort. ENOMEM. */
pst_status pst_search_fluid_bound(pst_search_context *x, const pst_search_config *c,
                                  const pst_search_pipeline *of, double enough_ns,
                                  double *bound_ns);
#endif
