/* See range.h. */
#include "partition/cost/range.h"
#include <string.h>
#include <strings.h>

/* low, high: errors, predicted / measured - 1; of models with at least `parameters`. Output of
 * bench/fit.py, rounded outwards. With fewer than 30 rows of a device (H100: 11), both sides have
 * 1.28 standard deviations of these rows' errors and of whole sources (10 %). B200 and others: no
 * row. */
static const struct {
    const char *name;
    double parameters, low, high;
} errors[] = {{"A100", 1e10, -0.13, 0.11}, {"A100", 1e9, -0.10, 0.10}, {"A100", 0, -0.12, 0.10},
              {"H100", 0, -0.17, 0.17},    {"H200", 0, -0.17, 0.17},   {"", 0, -0.25, 0.25}};

/* largest error of the 38 configurations of bench/predict.py (docs/measurements.md) */
#define WITH_PROFILE 0.086
/* of rows around the median of their source */
#define CALIBRATED_LOW (-0.11)
#define CALIBRATED_HIGH 0.08

static void set(double low, double high, pst_costs_range *range) {
    *range = (pst_costs_range){1 / (1 + high), 1 / (1 + low)};
}

int pst_costs_range_of(const pst_device_kind *kind, double parameters, int profile, int calibrated,
                       pst_costs_range *range) {
    size_t i = 0;
    if (profile) set(-WITH_PROFILE, WITH_PROFILE, range);
    else if (calibrated) set(CALIBRATED_LOW, CALIBRATED_HIGH, range);
    if (profile || calibrated) return 1;
    if (pst_costs_is_cpu(kind)) return 0;
    while (strncasecmp(kind->name, errors[i].name, strlen(errors[i].name)) != 0 ||
           parameters < errors[i].parameters)
        i++;
    set(errors[i].low, errors[i].high, range);
    return 1;
}
