/* Distributes the micro-batches of a step among replicas of different speed. */
#ifndef PST_PARTITION_COST_REPLICAS_H
#define PST_PARTITION_COST_REPLICAS_H
#include <stdint.h>

/* Sets micros[0..n), the number of micro-batches of each replica, with sum n_micro >= n. Every
 * replica gets one micro-batch; each further one goes to the replica that would finish it first
 * (the lowest index if several would). period: [n] time per micro-batch of each replica, in any
 * unit. */
void pst_replicas_share(const double *period, uint32_t n, uint32_t n_micro, uint32_t *micros);
/* The same if the first micro-batch, which the first replica has, is a smaller one: rest: the part
 * of a whole one that it is, less than 1; 0: it is a whole one. The whole micro-batches are shared,
 * and the first replica has the smaller one in addition, if the slowest replica then ends
 * earlier. */
void pst_replicas_share_rest(const double *period, uint32_t n, uint32_t n_micro, double rest,
                             uint32_t *micros);
#endif
