/* Building a schedule: its limits, and adding actions rank by rank. */
#ifndef PST_PIPELINE_SCHEDULE_BUILD_H
#define PST_PIPELINE_SCHEDULE_BUILD_H
#include "pipeline/schedule/schedule.h"

enum {
    PST_SCHEDULE_MAX_RANK = 65535,
    PST_SCHEDULE_MAX_CHUNK = 65535,
    PST_SCHEDULE_MAX_VIRTUAL = 64
};
enum { PST_SCHEDULE_MAX_MICRO = 1 << 24 };

/* An empty schedule with capacity for the actions of every chunk and micro-batch: F alone for
 * PST_SCHEDULE_FORWARD; F, B, W where the row is split; else F, BW. */
pst_status pst_schedule_open(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule);
/* Appends an action; one of a micro-batch that does not exist is ignored. */
void pst_schedule_add(pst_schedule *s, uint32_t rank, pst_opcode op, uint32_t chunk,
                      uint32_t micro);
/* Appends B and then W, or a fused BW. */
void pst_schedule_add_backward(pst_schedule *s, uint32_t rank, uint32_t chunk, uint32_t micro);

/* A periodic pass of one chunk: that of micro-batch k starts at `start` + k * `period`. */
typedef struct {
    uint8_t opcode;
    uint32_t chunk;
    uint64_t start, period;
} pst_pass_series;
/* Appends the passes of all micro-batches of n series in order of their start; at the same start
 * the earlier series comes first. */
void pst_schedule_add_series(pst_schedule *s, uint32_t rank, const pst_pass_series *series,
                             uint32_t n);
#endif
