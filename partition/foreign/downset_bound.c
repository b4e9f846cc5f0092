/* A lower bound by linear-programming duality. Every device of kind k sells `limit` of its time at
 * the price weight[k]; item i costs at least the minimum of weight[k] * time. For every split, the
 * sum of that over the items is at most limit * sum of count * weight: the dual of distributing
 * fractions of items. See downset.h. */
#include "partition/foreign/downset.h"
#include <math.h>

double pst_downset_work(const pst_downset_problem *p, const double *weight, uint32_t item) {
    double least = INFINITY;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double time = p->time[(size_t)k * p->n_item + item];
        if (p->kind[k].count && isfinite(time)) least = fmin(least, weight[k] * time);
    }
    return isfinite(least) ? least : 0;
}

static double of_weights(const pst_downset_problem *p, const double *weight) {
    double work = 0, devices = 0;
    for (uint32_t i = 0; i < p->n_item; i++) work += pst_downset_work(p, weight, i);
    for (uint32_t k = 0; k < p->n_kind; k++) devices += weight[k] * p->kind[k].count;
    return devices > 0 ? work / devices : 0;
}

/* An item lies on one device, or on all replicas that its kind allows. */
static double of_items(const pst_downset_problem *p) {
    double most = 0;
    for (uint32_t i = 0; i < p->n_item; i++) {
        double least = INFINITY;
        for (uint32_t k = 0; k < p->n_kind; k++) {
            uint32_t devices =
                p->kind[k].count < p->kind[k].replicas ? p->kind[k].count : p->kind[k].replicas;
            if (devices) least = fmin(least, p->time[(size_t)k * p->n_item + i] / devices);
        }
        if (isfinite(least)) most = fmax(most, least);
    }
    return most;
}

/* Initial prices: the average speed of each kind. */
static void start(const pst_downset_problem *p, double *weight) {
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < p->n_item; i++) {
            double time = p->time[(size_t)k * p->n_item + i];
            if (isfinite(time)) sum += time;
        }
        weight[k] = sum > 0 ? 1 / sum : 1;
    }
}

/* Device time, at these prices, that an item needs at least if no load exceeds `limit`: if its part
 * needs several devices, they also exchange. */
static double work_within(const pst_downset_problem *p, const double *weight, double limit,
                          uint32_t item) {
    double least = INFINITY, x = p->exchange[item];
    int somewhere = 0;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double time = p->time[(size_t)k * p->n_item + item];
        uint32_t most =
            p->kind[k].count < p->kind[k].replicas ? p->kind[k].count : p->kind[k].replicas;
        if (!most || !isfinite(time)) continue;
        somewhere = 1;
        if (time > limit) { /* limit m >= time + x (m - 1) / m holds from the larger root on */
            double b = time + x,
                   m = ceil((b + sqrt(fmax(b * b - 4 * limit * x, 0))) / (2 * limit) * (1 - 1e-9));
            if (m > most) continue;
            time += x * (1 - 1 / fmax(m, 2));
        }
        least = fmin(least, weight[k] * time);
    }
    return somewhere ? least : 0;
}

/* Any limit at which the work exceeds what the devices can do is a bound. */
static double with_exchanges(const pst_downset_problem *p, const double *weight, double bound) {
    double devices = 0, low = bound, high = 2 * bound;
    for (uint32_t k = 0; k < p->n_kind; k++) devices += weight[k] * p->kind[k].count;
    for (int turn = 0; turn < 40; turn++) {
        double limit = low + (high - low) / 2, work = 0;
        for (uint32_t i = 0; i < p->n_item; i++) work += work_within(p, weight, limit, i);
        if (work > limit * devices * (1 + 1e-9)) low = limit;
        else high = limit;
    }
    return low;
}

double pst_downset_bound(const pst_downset_problem *p, double *weight) {
    start(p, weight);
    double best = of_weights(p, weight);
    for (double step = 4; step > 1.02; step = sqrt(step))
        for (uint32_t k = 0; p->n_kind > 1 && k < p->n_kind; k++)
            for (int up = 0; up < 2; up++) {
                double before = weight[k];
                weight[k] *= up ? step : 1 / step;
                double bound = of_weights(p, weight);
                if (bound > best) best = bound;
                else weight[k] = before;
            }
    best = fmax(best, of_items(p)) * (1 - 1e-12); /* sums are rounded */
    return best > 0 ? with_exchanges(p, weight, best) : best;
}
