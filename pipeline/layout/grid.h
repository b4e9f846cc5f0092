/* The grid of ranks: pipeline stages x replicas (data) x tensor ranks. World ranks are numbered
 * with the tensor rank innermost and the stage outermost, so that the ranks that communicate most
 * are neighbours. Stages may have different numbers of tensor ranks; each stage's ranks follow
 * those of the stages before it.
 *
 * A lane is one rank per stage of one replica: those that compute tensor rank t and pass
 * activations on to each other. A replica has as many lanes as its widest stage has tensor ranks.
 * On a narrower stage several lanes share a rank: lane t uses tensor rank t modulo that stage's
 * number. The first of these lanes is the rank's home; the rank has the instruction list and the
 * memory map of its home. Between stages of different widths all tensor ranks have the same values,
 * so a rank sends what crosses into a wider stage to every lane that it serves. */
#ifndef PST_PIPELINE_LAYOUT_GRID_H
#define PST_PIPELINE_LAYOUT_GRID_H
#include <stdint.h>

/* Degrees; all are at least 1. */
typedef struct {
    uint32_t pipeline, data, tensor; /* tensor: of every stage, or of the widest one */
    /* [pipeline + 1] tensor ranks of all stages before each one; NULL: all stages have the same
     * number. Borrowed: it outlives the grid and its copies */
    const uint32_t *tensor_before;
} pst_grid;
typedef struct {
    uint32_t stage, replica, tensor;
} pst_grid_place;

/* Tensor ranks of a stage. */
static inline uint32_t pst_grid_degree(pst_grid grid, uint32_t stage) {
    return grid.tensor_before ? grid.tensor_before[stage + 1] - grid.tensor_before[stage]
                              : grid.tensor;
}
static inline uint32_t pst_grid_size(pst_grid grid) {
    return (grid.tensor_before ? grid.tensor_before[grid.pipeline] : grid.pipeline * grid.tensor) *
           grid.data;
}
/* The first rank of a stage. For stage == pipeline: the number of all ranks. */
static inline uint32_t pst_grid_first(pst_grid grid, uint32_t stage) {
    return (grid.tensor_before ? grid.tensor_before[stage] : stage * grid.tensor) * grid.data;
}
static inline uint32_t pst_grid_rank(pst_grid grid, uint32_t stage, uint32_t replica,
                                     uint32_t tensor) {
    return pst_grid_first(grid, stage) + replica * pst_grid_degree(grid, stage) + tensor;
}
static inline uint32_t pst_grid_stage(pst_grid grid, uint32_t rank) {
    if (!grid.tensor_before) return rank / (grid.data * grid.tensor);
    uint32_t low = 0, high = grid.pipeline;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (grid.tensor_before[middle] * grid.data <= rank) low = middle;
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
/* The rank of a stage that a lane uses; whether the lane is that rank's home. */
static inline uint32_t pst_grid_in_lane(pst_grid grid, uint32_t stage, uint32_t lane) {
    return pst_grid_rank(grid, stage, lane / grid.tensor,
                         lane % grid.tensor % pst_grid_degree(grid, stage));
}
static inline int pst_grid_is_home(pst_grid grid, uint32_t stage, uint32_t lane) {
    return lane % grid.tensor < pst_grid_degree(grid, stage);
}
/* A rank of stage `from` whose home is `home` sends to one or more ranks of stage `to`. These
 * enumerate the homes of the receivers: the first one, then the one after `lane`; PST_GRID_NO_LANE:
 * there are no more. */
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
/* Fills tensor_before, [pipeline + 1], from the tensor ranks of each stage, [pipeline]; returns the
 * largest degree. */
uint32_t pst_grid_prefix_sums(const uint32_t *degree, uint32_t pipeline, uint32_t *tensor_before);

/* "2 stages x 2 replicas x 2 tensor ranks" ("1 to 4 tensor ranks" where stages differ); for a rank
 * "stage 1, replica 0, tensor rank 1". Degrees of 1 are left out; "" where there is only one lane.
 * Returns text. */
enum { PST_GRID_TEXT = 96 };
const char *pst_grid_text(pst_grid grid, char text[PST_GRID_TEXT]);
const char *pst_grid_place_text(pst_grid grid, uint32_t rank, char text[PST_GRID_TEXT]);
#endif
