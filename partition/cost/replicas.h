/* Distributes the micro-batches of a step to replicas that are not equally fast. */
#ifndef PST_PARTITION_COST_REPLICAS_H
#define PST_PARTITION_COST_REPLICAS_H
#include <stdint.h>

/* micros: [n] one for each replica; each further one goes to the replica that would finish it
 * first, the first one if equal. period: [n] time of a micro-batch on each, in any unit. n_micro is
 * at least n. */
void pst_replicas_share(const double *period, uint32_t n, uint32_t n_micro, uint32_t *micros);
#endif
