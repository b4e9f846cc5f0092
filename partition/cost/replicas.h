/* Distributes the micro-batches of a step among replicas of different speed. */
#ifndef PST_PARTITION_COST_REPLICAS_H
#define PST_PARTITION_COST_REPLICAS_H
#include <stdint.h>

/* Sets micros[0..n), the number of micro-batches of each replica, with sum n_micro >= n. Every
 * replica gets one micro-batch; each further one goes to the replica that would finish it first
 * (the lowest index if several would). period: [n] time per micro-batch of each replica, in any
 * unit. */
void pst_replicas_share(const double *period, uint32_t n, uint32_t n_micro, uint32_t *micros);
#endif
