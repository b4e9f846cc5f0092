/* Compares what two runs have recorded, tensor by tensor. */
#ifndef PST_VERIFY_COMPARE_H
#define PST_VERIFY_COMPARE_H
#include "verify/difference.h"

/* What is counted apart. */
typedef enum {
    PST_GROUP_DATA,
    PST_GROUP_VALUES,    /* activations, their gradients, gradients of each use of a parameter */
    PST_GROUP_GRADIENTS, /* sums over micro-batches and replicas */
    PST_GROUP_NUMBERS,   /* loss, norm, clip factor, learning rate */
    PST_GROUP_WEIGHTS,   /* weights as operators read them; weights and optimizer state */
    PST_GROUP_COUNT
} pst_compared_group;

typedef struct {
    /* 0: all bits are equal; else the largest difference of two elements, relative to the largest
     * element of the tensor */
    double tolerance;
    double gradients;              /* with a tolerance: that of gradients and their norm */
    uint64_t first_step, end_step; /* steps that are compared */
    int joined;                    /* the reference has one tensor rank, whatever the run has */
    int accumulators;  /* also gradients before their sum over replicas: needs the same sums */
    int weights_after; /* also weights and states after the step */
} pst_compare_options;

typedef struct {
    uint64_t tensors[PST_GROUP_COUNT], different[PST_GROUP_COUNT];
    double worst[PST_GROUP_COUNT]; /* largest relative difference */
    pst_difference first;
} pst_comparison;

/* Every record of `run` that `reference` has as well. With `joined`, what tensor ranks have parts
 * of is compared by part (parameters) or not at all (activations). *out is added to. */
void pst_compare(const pst_recording *run, const pst_recording *reference,
                 const pst_compare_options *options, pst_comparison *out);
uint64_t pst_comparison_tensors(const pst_comparison *c);
uint64_t pst_comparison_different(const pst_comparison *c);
#endif
