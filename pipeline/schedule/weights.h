/* Adds W to an order of F and B, where the rank would be idle. */
#ifndef PST_PIPELINE_SCHEDULE_WEIGHTS_H
#define PST_PIPELINE_SCHEDULE_WEIGHTS_H
#include "pipeline/schedule/schedule.h"

/* Adds all W to a schedule. limit: maximum number of micro-batches with F done and W not done,
 * summed over the chunks of a rank; it is exceeded if nothing else can run. After a failure the
 * schedule is closed. EINPUT: the schedule deadlocks; ENOMEM. */
pst_status pst_schedule_fill_weights(pst_schedule **schedule, uint32_t limit);
#endif
