/* The schedule of the learning rate: warm-up, then train.decay. */
#ifndef PST_RUN_LEARNING_RATE_H
#define PST_RUN_LEARNING_RATE_H
#include "config/config.h"

/* The learning rate of a step, counted from 0. Steps beyond train.steps, which a session may make,
 * have the rate at the end of the decay. */
double pst_learning_rate(const pst_config *config, uint64_t step);
#endif
