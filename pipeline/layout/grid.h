/* The grid of ranks: pipeline stages x replicas (data) x tensor ranks. World ranks are numbered
 * with the tensor rank innermost and the stage outermost, so that ranks that talk most are
 * neighbours. Stages may have different numbers of tensor ranks; the ranks of a stage then begin
 * behind those of all stages before.
 *
 * A lane is one pipeline: one replica's ranks, a rank per stage, that compute and hand on what
 * tensor rank t computes; there are as many as the widest stage has tensor ranks. Where a stage has
 * fewer, several lanes go through each of its ranks: lane t through tensor rank t modulo their
 * number. Such a rank's home, of which its list and memory are, is the first of these; what crosses
 * into a wider stage it sends to every lane that goes through it, for between stages of different
 * numbers all tensor ranks have the same values. */
#ifndef PST_PIPELINE_LAYOUT_GRID_H
#define PST_PIPELINE_LAYOUT_GRID_H
#include <stdint.h>

/* Degrees; none is 0. */
typedef struct {
    uint32_t pipeline, data, tensor; /* tensor: of every stage, or the most of any */
    const uint32_t *before; /* [pipeline + 1] tensor ranks of all stages before, where not all have
                               as many; NULL. Borrowed: it outlives the grid and its copies */
} pst_grid;
typedef struct {
    uint32_t stage, replica, tensor;
} pst_grid_place;

/* Tensor ranks of a stage. */
static inline uint32_t pst_grid_degree(pst_grid grid, uint32_t stage) {
    return grid.before ? grid.before[stage + 1] - grid.before[stage] : grid.tensor;
}
static inline uint32_t pst_grid_size(pst_grid grid) {
    return (grid.before ? grid.before[grid.pipeline] : grid.pipeline * grid.tensor) * grid.data;
}
/* The first rank of a stage; of the number of stages, all ranks. */
static inline uint32_t pst_grid_first(pst_grid grid, uint32_t stage) {
    return (grid.before ? grid.before[stage] : stage * grid.tensor) * grid.data;
}
static inline uint32_t pst_grid_rank(pst_grid grid, uint32_t stage, uint32_t replica,
                                     uint32_t tensor) {
    return pst_grid_first(grid, stage) + replica * pst_grid_degree(grid, stage) + tensor;
}
static inline uint32_t pst_grid_stage(pst_grid grid, uint32_t rank) {
    if (!grid.before) return rank / (grid.data * grid.tensor);
    uint32_t low = 0, high = grid.pipeline;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (grid.before[middle] * grid.data <= rank) low = middle;
        else high = middle;
    }
    return low;
}
static inline pst_grid_place pst_grid_at(pst_grid grid, uint32_t rank) {
    uint32_t stage = pst_grid_stage(grid, rank), n = pst_grid_degree(grid, stage),
             at = rank - pst_grid_first(grid, stage);
    return (pst_grid_place){stage, at / n, at % n};
}
/* Lanes, numbered by replica and, within it, by tensor rank. */
static inline uint32_t pst_grid_lanes(pst_grid grid) { return grid.data * grid.tensor; }
/* A rank's home. */
static inline uint32_t pst_grid_lane(pst_grid grid, uint32_t rank) {
    pst_grid_place at = pst_grid_at(grid, rank);
    return at.replica * grid.tensor + at.tensor;
}
/* The rank of a stage through which a lane goes; whether that is its home. */
static inline uint32_t pst_grid_in_lane(pst_grid grid, uint32_t stage, uint32_t lane) {
    return pst_grid_rank(grid, stage, lane / grid.tensor,
                         lane % grid.tensor % pst_grid_degree(grid, stage));
}
static inline int pst_grid_is_home(pst_grid grid, uint32_t stage, uint32_t lane) {
    return lane % grid.tensor < pst_grid_degree(grid, stage);
}
/* Of a rank of stage `from` with this home, the homes on stage `to` of the ranks that it sends to:
 * the first; the one after `lane`, PST_GRID_NO_LANE: there are no more. */
enum { PST_GRID_NO_LANE = INT32_MAX };
static inline uint32_t pst_grid_receiver(pst_grid grid, uint32_t to, uint32_t home) {
    return pst_grid_is_home(grid, to, home) ? home : PST_GRID_NO_LANE;
}
static inline uint32_t pst_grid_next_receiver(pst_grid grid, uint32_t from, uint32_t to,
                                              uint32_t lane) {
    uint32_t tensor = lane % grid.tensor + pst_grid_degree(grid, from);
    return tensor < pst_grid_degree(grid, to) ? lane - lane % grid.tensor + tensor
                                              : PST_GRID_NO_LANE;
}
/* What follows from tensor ranks per stage, [pipeline]: before, [pipeline + 1], and the most of
 * any. */
uint32_t pst_grid_sum_up(const uint32_t *degree, uint32_t pipeline, uint32_t *before);

/* "2 stages x 2 replicas x 2 tensor ranks" (where they differ "1 to 4 tensor ranks"), and of a rank
 * "stage 1, replica 0, tensor rank 1", without degrees of 1; "" where there is only one pipeline.
 * Returns text. */
enum { PST_GRID_TEXT = 96 };
const char *pst_grid_text(pst_grid grid, char text[PST_GRID_TEXT]);
const char *pst_grid_place_text(pst_grid grid, uint32_t rank, char text[PST_GRID_TEXT]);
#endif
