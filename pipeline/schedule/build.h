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

/* Without actions, with room for those of every chunk and micro-batch: F alone of
 * PST_SCHEDULE_FORWARD; F, B, W where the row is split; else F, BW. */
pst_status pst_schedule_open(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule);
/* Appends; micro-batches beyond the last one are left out. */
void pst_schedule_add(pst_schedule *s, uint32_t rank, pst_opcode op, uint32_t chunk,
                      uint32_t micro);
/* B and W behind each other, or fused. */
void pst_schedule_add_backward(pst_schedule *s, uint32_t rank, uint32_t chunk, uint32_t micro);

/* Passes of one chunk that come round: that of micro-batch k at `start` + k * `every`. */
typedef struct {
    uint8_t opcode;
    uint32_t chunk;
    uint64_t start, every;
} pst_beat;
/* Appends the passes of all micro-batches of n beats in the order of their times; of equal ones the
 * earlier beat's. */
void pst_schedule_add_beats(pst_schedule *s, uint32_t rank, const pst_beat *beat, uint32_t n);
#endif
