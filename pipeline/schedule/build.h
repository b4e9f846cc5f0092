/* Functions that build a schedule, and the limits of its size. */
#ifndef PST_PIPELINE_SCHEDULE_BUILD_H
#define PST_PIPELINE_SCHEDULE_BUILD_H
#include "pipeline/schedule/schedule.h"

enum {
    PST_SCHEDULE_MAX_RANK = 65535,
    PST_SCHEDULE_MAX_CHUNK = 65535,
    PST_SCHEDULE_MAX_VIRTUAL = 64
};
enum { PST_SCHEDULE_MAX_MICRO = 1 << 24 };

/* Creates an empty schedule with capacity for the actions of every chunk and micro-batch: F for
 * PST_SCHEDULE_FORWARD; F, B and W if row->split; else F and BW. The caller frees *schedule with
 * pst_schedule_close. EINPUT: a number is out of range; ENOMEM. */
pst_status pst_schedule_open(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule);
/* Appends an action to the order of a rank. Ignores actions with micro >= n_micro. */
void pst_schedule_add(pst_schedule *s, uint32_t rank, pst_opcode op, uint32_t chunk,
                      uint32_t micro);
/* Appends B and W, or a fused BW. */
void pst_schedule_add_backward(pst_schedule *s, uint32_t rank, uint32_t chunk, uint32_t micro);

/* A periodic pass of one chunk: micro-batch k starts at time `start` + k * `period`. */
typedef struct {
    uint8_t opcode;
    uint32_t chunk;
    uint64_t start, period;
} pst_pass_series;
/* Appends the passes of all micro-batches of n series in the order of their start times; for equal
 * times in the order of the series. */
void pst_schedule_add_series(pst_schedule *s, uint32_t rank, const pst_pass_series *series,
                             uint32_t n);
#endif
