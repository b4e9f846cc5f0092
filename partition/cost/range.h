/* How far measured steps are from predicted ones: the 10th and 90th percentile of the errors on
 * published steps whose source was left out of the fit (docs/planning.md), by device and size of
 * the model. */
#ifndef PST_PARTITION_COST_RANGE_H
#define PST_PARTITION_COST_RANGE_H
#include "partition/cost/costs.h"

/* Factors on a predicted step. */
typedef struct {
    double low, high;
} pst_costs_range;
/* Sets *range for a model with this number of parameters on a kind of device. profile: 1: with
 * measured durations; calibrated: 1: corrected by a measured step. Returns 0 if errors on such
 * devices are unknown (CPUs without a profile). */
int pst_costs_range_of(const pst_device_kind *kind, double parameters, int profile, int calibrated,
                       pst_costs_range *range);
#endif
