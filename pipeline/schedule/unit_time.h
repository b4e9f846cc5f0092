/* Unit-time simulation of a schedule: when each action would run if F, B and W took one unit of
 * time each and messages none. */
#ifndef PST_PIPELINE_SCHEDULE_UNIT_TIME_H
#define PST_PIPELINE_SCHEDULE_UNIT_TIME_H
#include "pipeline/schedule/schedule.h"
#include <stddef.h>

/* Indexed by (chunk * 4 + opcode) * n_micro + micro, in units of one pass. */
typedef struct {
    uint32_t *start, *finish;
    /* start and finish of the action before it on its rank, 0 if it is the first */
    uint32_t *post, *idle;
    /* in a deadlock: the first rank that cannot go on, and its action; else UINT32_MAX */
    uint32_t stuck_rank, stuck_action;
} pst_unit_time;

/* An action's index in these lists. */
static inline size_t pst_unit_time_key(const pst_schedule *s, uint32_t chunk, uint8_t opcode,
                                       uint32_t micro) {
    return ((size_t)chunk * 4 + opcode) * s->n_micro + micro;
}
/* EINPUT if the schedule deadlocks. The caller closes it in any case. */
pst_status pst_unit_time_open(const pst_schedule *s, pst_unit_time *pace);
void pst_unit_time_close(pst_unit_time *pace);
#endif
