/* W for an order of F and B: where a rank would be idle. */
#ifndef PST_PIPELINE_SCHEDULE_WEIGHTS_H
#define PST_PIPELINE_SCHEDULE_WEIGHTS_H
#include "pipeline/schedule/schedule.h"

/* limit: micro-batches of a chunk with F done and W not, on each rank; it is exceeded where nothing
 * else could run. Closes the schedule when it fails. */
pst_status pst_schedule_fill_weights(pst_schedule **schedule, uint32_t limit);
#endif
