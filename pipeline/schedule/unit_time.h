/* Unit-time simulation of a schedule: the times of all actions if F, B and W take one unit of time
 * each and messages take no time. */
#ifndef PST_PIPELINE_SCHEDULE_UNIT_TIME_H
#define PST_PIPELINE_SCHEDULE_UNIT_TIME_H
#include "pipeline/schedule/schedule.h"
#include <stddef.h>

/* Times of the actions, in units of one pass, indexed by pst_unit_time_key. */
typedef struct {
    uint32_t *start, *finish;
    /* start and finish of the previous action on the same rank; 0 for the first action */
    uint32_t *post, *idle;
    /* in a deadlock: the first rank that cannot continue, and the index of its blocked action; else
     * UINT32_MAX */
    uint32_t stuck_rank, stuck_action;
} pst_unit_time;

/* Returns the index of an action in these lists. */
static inline size_t pst_unit_time_key(const pst_schedule *s, uint32_t chunk, uint8_t opcode,
                                       uint32_t micro) {
    return ((size_t)chunk * 4 + opcode) * s->n_micro + micro;
}
/* Simulates a schedule. The caller closes *pace, also after a failure. EINPUT: the schedule
 * deadlocks; ENOMEM. */
pst_status pst_unit_time_open(const pst_schedule *s, pst_unit_time *pace);
void pst_unit_time_close(pst_unit_time *pace);
#endif
