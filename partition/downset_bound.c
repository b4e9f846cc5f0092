/* A lower bound by prices. Every device of kind k offers `limit` of its time at the price weight[k]; item i takes at
 * least the cheapest of weight[k] * time. So the sum of that over the items is at most limit * sum of count * weight,
 * whatever the split: the dual of sharing out items in fractions. See downset.h. */
#include "partition/downset.h"
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

/* An item is somewhere as a whole, or on all replicas that its kind allows. */
static double of_items(const pst_downset_problem *p) {
    double most = 0;
    for (uint32_t i = 0; i < p->n_item; i++) {
        double least = INFINITY;
        for (uint32_t k = 0; k < p->n_kind; k++) {
            uint32_t devices = p->kind[k].count < p->kind[k].replicas ? p->kind[k].count : p->kind[k].replicas;
            if (devices) least = fmin(least, p->time[(size_t)k * p->n_item + i] / devices);
        }
        if (isfinite(least)) most = fmax(most, least);
    }
    return most;
}

/* Prices that say how fast a kind is on the whole. */
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
    return fmax(best, of_items(p)) * (1 - 1e-12); /* sums are rounded */
}
