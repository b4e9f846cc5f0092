/* The pace of a schedule: when each action would run if F, B and W took one unit of time each and
 * messages none. */
#ifndef PST_PIPELINE_SCHEDULE_PACE_H
#define PST_PIPELINE_SCHEDULE_PACE_H
#include "pipeline/schedule/schedule.h"
#include <stddef.h>

/* By (chunk * 4 + opcode) * n_micro + micro, in units of one pass. */
typedef struct {
    uint32_t *start, *finish;
    /* start and finish of the action before it on its rank, 0 when it is the first */
    uint32_t *post, *idle;
    uint32_t stuck_rank, stuck_action; /* when it cannot be finished: the first rank that waits for
                                          ever; else UINT32_MAX */
} pst_pace;

/* Where an action stands in these lists. */
static inline size_t pst_pace_key(const pst_schedule *s, uint32_t chunk, uint8_t opcode,
                                  uint32_t micro) {
    return ((size_t)chunk * 4 + opcode) * s->n_micro + micro;
}
/* EINPUT when the schedule's ranks wait for each other. Closed in any case. */
pst_status pst_pace_open(const pst_schedule *s, pst_pace *pace);
void pst_pace_close(pst_pace *pace);
#endif
