/* The grid of ranks: pipeline stages x replicas (data) x tensor ranks. World ranks are numbered with the tensor rank
 * innermost and the stage outermost, so that ranks that talk most are neighbours. A lane is one pipeline: the ranks of
 * one replica and tensor rank, one per stage. */
#ifndef PST_PIPELINE_GRID_H
#define PST_PIPELINE_GRID_H
#include <stdint.h>

typedef struct { uint32_t pipeline, data, tensor; } pst_grid;   /* degrees; none is 0 */
typedef struct { uint32_t stage, replica, tensor; } pst_grid_place;

static inline uint32_t pst_grid_size(pst_grid grid) { return grid.pipeline * grid.data * grid.tensor; }
static inline uint32_t pst_grid_rank(pst_grid grid, uint32_t stage, uint32_t replica, uint32_t tensor) {
    return (stage * grid.data + replica) * grid.tensor + tensor;
}
static inline pst_grid_place pst_grid_at(pst_grid grid, uint32_t rank) {
    return (pst_grid_place){rank / (grid.data * grid.tensor), rank / grid.tensor % grid.data, rank % grid.tensor};
}
/* Lanes, numbered as the ranks of stage 0 are. */
static inline uint32_t pst_grid_lanes(pst_grid grid) { return grid.data * grid.tensor; }
static inline uint32_t pst_grid_lane(pst_grid grid, uint32_t rank) { return rank % (grid.data * grid.tensor); }
static inline uint32_t pst_grid_in_lane(pst_grid grid, uint32_t stage, uint32_t lane) {
    return stage * grid.data * grid.tensor + lane;
}

/* "2 stages x 2 replicas x 2 tensor ranks", and of a rank "stage 1, replica 0, tensor rank 1", without degrees of 1; ""
 * where there is only one pipeline. Returns text. */
enum { PST_GRID_TEXT = 96 };
const char *pst_grid_text(pst_grid grid, char text[PST_GRID_TEXT]);
const char *pst_grid_place_text(pst_grid grid, uint32_t rank, char text[PST_GRID_TEXT]);
#endif
