/* Compares the recordings of two runs, tensor by tensor. */
#ifndef PST_VERIFY_COMPARE_H
#define PST_VERIFY_COMPARE_H
#include "verify/difference.h"

enum { PST_COMPARE_TEXT = 128 };

/* Kinds of tensors, counted separately. */
typedef enum {
    PST_GROUP_DATA,
    PST_GROUP_VALUES,    /* activations, their gradients, gradients of each use of a parameter */
    PST_GROUP_GRADIENTS, /* sums over micro-batches and replicas */
    PST_GROUP_NUMBERS,   /* loss, norm, clip factor, learning rate */
    PST_GROUP_WEIGHTS,   /* weights as read by operators; fp32 weights and optimizer state */
    PST_GROUP_COUNT
} pst_compared_group;

typedef struct {
    /* 0: all bits are equal; else the largest difference of two elements, relative to the largest
     * element of the tensor */
    double tolerance;
    /* with a tolerance: those of gradients inside a micro-batch; of sums of gradients over
     * micro-batches and replicas, and of their norm */
    double gradients, sums;
    /* 1: operators have kinks (relu, max_pool): of a gradient, one element in 256, at least one,
     * may differ by up to the largest element, because an input near the kink lets it through on
     * one side only */
    int kinks;
    uint64_t first_step, end_step; /* steps [first_step, end_step) are compared */
    int joined;        /* 1: the reference has one tensor rank, the run may have several */
    int accumulators;  /* 1: also compares gradient accumulators, which must sum the same
                          micro-batches in both runs */
    int weights_after; /* 1: also compares weights and optimizer state after the step */
} pst_compare_options;

typedef struct {
    uint64_t tensors[PST_GROUP_COUNT], different[PST_GROUP_COUNT];
    double worst[PST_GROUP_COUNT]; /* largest relative difference */
    pst_difference first;
} pst_comparison;

/* Compares every record of `run` that has a counterpart in `reference`, and adds the results to
 * *out. With `joined`: if a tensor is split over tensor ranks, each part of a parameter is
 * compared, but not the parts of an activation. */
void pst_compare(const pst_recording *run, const pst_recording *reference,
                 const pst_compare_options *options, pst_comparison *out);
/* "tolerance 1e-04 of the largest element, of gradients 4e-01": what pst_compare will use. */
void pst_compare_print(const pst_compare_options *options, char text[PST_COMPARE_TEXT]);
/* The largest magnitude of the stored elements. */
double pst_compare_largest(const pst_recorded *item);
/* 1: differs by more than is allowed; NaN and infinity differ from all but themselves. */
int pst_compare_differs(double a, double b, double allowed);
uint64_t pst_comparison_tensors(const pst_comparison *c);
uint64_t pst_comparison_different(const pst_comparison *c);
#endif
