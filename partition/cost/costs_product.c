/* Rates of matrix products and of memory. From public measurements of kernels, except
 * `sustained`: the output is computed in tiles, in waves of one tile per core; the last wave may be
 * almost empty (NVIDIA, Matrix Multiplication Background User's Guide). Best rate of a wave: the
 * maximum achievable matmul FLOPS of github.com/stas00/ml-engineering, compute/accelerator (A100
 * 86.9%, H100 80.3%, B200 77.6%, MI300X 60.1%; FP8: H100 70.9%, H200 73.4%, B200 76.3%; others are
 * taken as their nearest relative). The start and end of a tile cost as much as DEPTH of its inner
 * dimension, about what tables of H100 products in github.com/openxla/xla show. `sustained`:
 * products in a step, under the device's power limit and with other kernels before and after,
 * beside these best ones; fitted by bench/fit.py to published steps. Memory: the share of the
 * bandwidth that STREAM reaches. */
#include "partition/cost/costs_parts.h"
#include <math.h>
#include <string.h>
#include <strings.h>

#define LAUNCH_NS 3000.0 /* from the end of a kernel to the start of the next, in penstock */
#define DEPTH 160.0
#define MOVE_SHARE 0.85

/* By name prefix; "": all others. share: of the peak rate, for the best products; sustained: of
 * that, in a step; 8: in FP8. V100 as A100; no step on B200 or others was fitted: as H100. */
static const struct {
    const char *name;
    double cores, share, sustained, share8, sustained8;
} devices[] = {{"V100", 80, 0.85, 0.945, 0, 0},
               {"A100", 108, 0.869, 0.945, 0, 0},
               {"H100", 132, 0.803, 0.785, 0.709, 0.925},
               {"H200", 132, 0.803, 0.785, 0.734, 0.925},
               {"B200", 148, 0.776, 0.785, 0.763, 0.925},
               {"GB200", 152, 0.776, 0.785, 0.763, 0.925},
               {"B300", 148, 0.776, 0.785, 0.763, 0.925},
               {"L40S", 142, 0.8, 0.785, 0.75, 0.925},
               {"RTX-4090", 128, 0.8, 0.785, 0.75, 0.925},
               {"MI300X", 304, 0.601, 0.785, 0.75, 0.925},
               {"", 108, 0.8, 0.785, 0.75, 0.925}};

static size_t row_of(const pst_device_kind *kind) {
    size_t d = 0;
    while (strncasecmp(kind->name, devices[d].name, strlen(devices[d].name)) != 0) d++;
    return d;
}

static double peak(const pst_device_kind *kind, pst_dtype factors) {
    double flops = kind->flops[factors];
    /* types that the device does not support are computed in fp32 */
    return flops > 0 ? flops : kind->flops[PST_F32];
}

double pst_costs_launch_ns(const pst_costs *costs) {
    return costs->program ? costs->program->launch * 1e3 : LAUNCH_NS;
}

static double products_factor(const pst_costs *costs) {
    return costs->program ? costs->program->products : 1;
}

static double moves_factor(const pst_costs *costs) {
    return costs->program ? costs->program->moves : 1;
}

double pst_costs_move_s(const pst_costs *costs, double bytes) {
    return bytes / (costs->kind->bytes_per_s * MOVE_SHARE) * moves_factor(costs);
}

/* Seconds of `count` products of m x k times k x n with the best tile size and the best number of
 * parts (up to `parts`) that a tile's sums are split into. */
double pst_costs_product_s(const pst_costs *costs, pst_dtype factors,
                           const pst_costs_product *product) {
    static const struct {
        double m, n, share;
    } tile[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95}, {256, 64, 0.9},
                {64, 256, 0.9}, {128, 64, 0.8}, {64, 64, 0.6}};
    const size_t d = row_of(costs->kind);
    const int eight = factors == PST_F8 && costs->kind->flops[PST_F8] > 0 && devices[d].share8 > 0;
    const double share =
        eight ? devices[d].share8 * devices[d].sustained8 : devices[d].share * devices[d].sustained;
    const double rate = peak(costs->kind, factors) * share;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
        for (double part = 1; part <= product->parts; part *= 2) {
            double tiles = ceil(product->m / tile[i].m) * ceil(product->n / tile[i].n);
            double waves = ceil(product->count * tiles * part / devices[d].cores);
            double wave =
                2 * tile[i].m * tile[i].n * (product->k / part + DEPTH) * devices[d].cores;
            best = fmin(best, waves * wave / (rate * tile[i].share));
        }
    return best * products_factor(costs);
}
