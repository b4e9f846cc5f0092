/* The grid of ranks: pipeline stages x replicas (data) x tensor ranks. Ranks are numbered with the
 * tensor rank innermost and the stage outermost, so that the ranks that communicate most have
 * consecutive numbers. Stages may have different numbers of tensor ranks; the ranks of a stage
 * follow those of the previous stage.
 *
 * A stage may also have servers: ranks that compute no passes, and own shards of the stage's
 * parameters (pipeline/compile/share.h). Their numbers follow those of the stage's replicas; in
 * place of a replica they have pst_grid.data and higher numbers. Replicas and servers together are
 * the owners of a stage.
 *
 * A lane has one rank per stage of one replica: the ranks with tensor rank t, which pass
 * activations on to each other. A replica has as many lanes as its widest stage (the stage with the
 * largest number of tensor ranks). On a narrower stage several lanes share a rank: lane t uses
 * tensor rank t modulo the number of tensor ranks of the stage. The first of these lanes is the
 * home of the rank; the rank has the instruction list and the memory map of its home. At the
 * boundary of two stages with different numbers of tensor ranks, all tensor ranks have the same
 * values; a rank sends values for a wider stage to all lanes that share the rank. */
#ifndef PST_PIPELINE_LAYOUT_GRID_H
#define PST_PIPELINE_LAYOUT_GRID_H
#include <stdint.h>

/* Degrees; all are at least 1. */
typedef struct {
    /* tensor: tensor ranks of every stage, or of the widest stage */
    uint32_t pipeline, data, tensor;
    /* [pipeline + 1] sum of the tensor ranks of all stages before each stage; NULL: all stages have
     * the same number. Borrowed; must outlive the grid and its copies */
    const uint32_t *tensor_before;
    uint32_t servers; /* of every stage, for each of its tensor ranks; may be 0 */
} pst_grid;
typedef struct {
    uint32_t stage, replica, tensor;
} pst_grid_place;

/* Returns the number of owners of a stage, of each tensor rank. */
static inline uint32_t pst_grid_owners(pst_grid grid) { return grid.data + grid.servers; }
/* Returns the number of tensor ranks of a stage. */
static inline uint32_t pst_grid_degree(pst_grid grid, uint32_t stage) {
    return grid.tensor_before ? grid.tensor_before[stage + 1] - grid.tensor_before[stage]
                              : grid.tensor;
}
/* Returns the number of ranks. */
static inline uint32_t pst_grid_size(pst_grid grid) {
    return (grid.tensor_before ? grid.tensor_before[grid.pipeline] : grid.pipeline * grid.tensor) *
           pst_grid_owners(grid);
}
/* Returns the first rank of a stage; for stage == pipeline, the number of ranks. */
static inline uint32_t pst_grid_first(pst_grid grid, uint32_t stage) {
    return (grid.tensor_before ? grid.tensor_before[stage] : stage * grid.tensor) *
           pst_grid_owners(grid);
}
static inline uint32_t pst_grid_rank(pst_grid grid, uint32_t stage, uint32_t replica,
                                     uint32_t tensor) {
    return pst_grid_first(grid, stage) + replica * pst_grid_degree(grid, stage) + tensor;
}
static inline uint32_t pst_grid_stage(pst_grid grid, uint32_t rank) {
    if (!grid.tensor_before) return rank / (pst_grid_owners(grid) * grid.tensor);
    uint32_t low = 0, high = grid.pipeline;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (grid.tensor_before[middle] * pst_grid_owners(grid) <= rank) low = middle;
        else high = middle;
    }
    return low;
}
static inline pst_grid_place pst_grid_at(pst_grid grid, uint32_t rank) {
    uint32_t stage = pst_grid_stage(grid, rank), n = pst_grid_degree(grid, stage),
             at = rank - pst_grid_first(grid, stage);
    return (pst_grid_place){stage, at / n, at % n};
}
/* Returns 1 if the rank is a server. */
static inline int pst_grid_is_server(pst_grid grid, uint32_t rank) {
    return pst_grid_at(grid, rank).replica >= grid.data;
}
/* Returns the number of servers of all stages and tensor ranks. */
static inline uint32_t pst_grid_servers(pst_grid grid) {
    return pst_grid_size(grid) / pst_grid_owners(grid) * grid.servers;
}
/* Returns the number of lanes. Lanes are numbered by replica or server, then by tensor rank. */
static inline uint32_t pst_grid_lanes(pst_grid grid) { return pst_grid_owners(grid) * grid.tensor; }
/* Returns the home of a rank. */
static inline uint32_t pst_grid_lane(pst_grid grid, uint32_t rank) {
    pst_grid_place at = pst_grid_at(grid, rank);
    return at.replica * grid.tensor + at.tensor;
}
/* pst_grid_in_lane returns the rank of a lane on a stage. pst_grid_is_home returns 1 if the lane is
 * the home of this rank. */
static inline uint32_t pst_grid_in_lane(pst_grid grid, uint32_t stage, uint32_t lane) {
    return pst_grid_rank(grid, stage, lane / grid.tensor,
                         lane % grid.tensor % pst_grid_degree(grid, stage));
}
static inline int pst_grid_is_home(pst_grid grid, uint32_t stage, uint32_t lane) {
    return lane % grid.tensor < pst_grid_degree(grid, stage);
}
/* Enumerate the ranks of stage `to` that receive values from the rank of stage `from` with home
 * lane `home`: pst_grid_receiver returns the home of the first receiver, pst_grid_next_receiver the
 * home of the receiver after `lane`; PST_GRID_NO_LANE: there is none. */
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
/* Sets tensor_before[0..pipeline] to the prefix sums of degree[0..pipeline), the tensor ranks of
 * each stage. Returns the largest degree. */
uint32_t pst_grid_prefix_sums(const uint32_t *degree, uint32_t pipeline, uint32_t *tensor_before);

/* Format a grid, such as "2 stages x 2 replicas x 2 tensor ranks" ("1 to 4 tensor ranks" if stages
 * differ; " + 4 servers" if there are any), or the place of a rank, such as "stage 1, replica 0,
 * tensor rank 1" or "stage 1, server 0". Degrees of 1 are omitted; a grid with one lane gives "".
 * Return `text`. */
enum { PST_GRID_TEXT = 112 };
const char *pst_grid_text(pst_grid grid, char text[PST_GRID_TEXT]);
const char *pst_grid_place_text(pst_grid grid, uint32_t rank, char text[PST_GRID_TEXT]);
#endif
