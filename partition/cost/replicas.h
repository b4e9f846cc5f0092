/* How the micro-batches of a step are shared out to replicas that are not equally fast. */
#ifndef PST_PARTITION_COST_REPLICAS_H
#define PST_PARTITION_COST_REPLICAS_H
#include <stdint.h>

/* micros: [n] one to each; each further one to the replica that would be done with it first, the
 * first of equals. period: [n] what one micro-batch takes on each, in any unit. n_micro is n at
 * least. */
void pst_replicas_share(const double *period, uint32_t n, uint32_t n_micro, uint32_t *micros);
#endif
