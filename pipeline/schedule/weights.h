/* Adds W to an order of F and B, in time that would be idle. */
#ifndef PST_PIPELINE_SCHEDULE_WEIGHTS_H
#define PST_PIPELINE_SCHEDULE_WEIGHTS_H
#include "pipeline/schedule/schedule.h"

/* limit: the most micro-batches with F done and W not, over a rank's chunks; exceeded where nothing
 * else could run. Closes the schedule on failure. */
pst_status pst_schedule_fill_weights(pst_schedule **schedule, uint32_t limit);
#endif
