/* The state of the checker. */
#ifndef PST_PIPELINE_CHECK_CHECKER_H
#define PST_PIPELINE_CHECK_CHECKER_H
#include "pipeline/check/check.h"
#include "pipeline/simulate/walk.h"

/* The issue (is_end 0) or the end (is_end 1) of instruction `index` of a rank. */
typedef struct {
    uint32_t rank, index, is_end;
} pst_moment;

typedef struct {
    const pst_job *job;
    const pst_cut *const *cuts;  /* [job->grid.tensor] */
    pst_slots *const *all_slots; /* [lanes]; NULL: memory is not checked */
    pst_walk *walk;
    /* The current lane, set by pst_checker_enter. */
    uint32_t lane, n_micro;
    const pst_cut *cut;
    const pst_slots *slots;
    /* [n_chunk + 1] index of each chunk's first local among the locals of all chunks; [all locals]
     * number among those that are sent or received, PST_NONE: it is neither */
    uint32_t *local_first, *moved;
    uint32_t n_moved;
    /* The following arrays have indices into the list of the rank; PST_NONE: no such
     * instruction. */
    /* [lanes][n_chunk][4][n_micro of the job] each pass; if it has several parts, the last one */
    uint32_t *pass_at;
    /* [lanes][n_moved][n_micro of the job] the SEND and the RECV of each value; if a value has
     * several SENDs, the last one */
    uint32_t *send_at, *recv_at;
    /* Happens-before relation on the current rank, see pst_checker_order. */
    uint32_t (*issue)[PST_Q_COUNT], (*end)[PST_Q_COUNT];
    /* The following arrays number instructions over all ranks. */
    uint32_t *instr_first; /* [n_rank] number of the rank's first instruction */
    /* [instructions] for a SEND, the previous SEND of the same value in the same list (to another
     * rank); for a part of a pass, the previous part; PST_NONE: there is none */
    uint32_t *again;
    /* Working memory of pst_checker_caused. */
    uint8_t *seen;     /* [instructions] bit 0: the issue was visited, bit 1: the end was visited */
    pst_moment *stack; /* [2 x instructions] */
} pst_checker;

static inline uint32_t *pst_checker_pass(const pst_checker *c, uint32_t chunk, uint32_t opcode,
                                         uint32_t micro) {
    size_t lane = c->lane - pst_job_first_lane(c->job);
    return &c->pass_at[((lane * c->job->n_chunk + chunk) * 4 + opcode) * c->job->n_micro + micro];
}
/* Returns 1 if a value is sent or received. */
static inline int pst_checker_moves(const pst_checker *c, uint32_t chunk, uint32_t local) {
    return c->moved[c->local_first[chunk] + local] != PST_NONE;
}
/* Requires that the value is sent or received. */
static inline size_t pst_checker_cell(const pst_checker *c, uint32_t chunk, uint32_t local,
                                      uint32_t micro) {
    const size_t lane = c->lane - pst_job_first_lane(c->job);
    const uint32_t moved = c->moved[c->local_first[chunk] + local];
    return (lane * c->n_moved + moved) * c->job->n_micro + micro;
}
static inline uint32_t pst_checker_stage(const pst_checker *c, uint32_t rank) {
    return pst_job_stage(c->job, rank);
}
/* Sets the current lane; the functions below require that their rank is in this lane. */
void pst_checker_enter(pst_checker *c, uint32_t lane);

/* Returns the stage of a parameter's use. */
static inline uint32_t pst_checker_stage_of_use(const pst_checker *c, uint32_t param,
                                                uint32_t use) {
    return c->job->rank_of_chunk[c->cut->use_chunk[c->cut->use_first[param] + use]];
}
/* Returns 1 if a stage uses a parameter that is trained. */
static inline int pst_checker_holds(const pst_checker *c, uint32_t param, uint32_t stage) {
    for (uint32_t u = c->cut->use_first[param]; u < c->cut->use_first[param + 1]; u++)
        if (c->job->rank_of_chunk[c->cut->use_chunk[u]] == stage) return 1;
    return 0;
}
/* Returns the rank that owns part `owner` of a parameter, in the island of `replica`, among those
 * of tensor rank `tensor`. */
static inline uint32_t pst_checker_owner(const pst_checker *c, uint32_t param, uint32_t owner,
                                         pst_grid_place at) {
    const pst_grid grid = c->job->grid;
    return pst_grid_in_lane(grid, pst_checker_stage_of_use(c, param, 0),
                            pst_job_peer(c->job, at.replica, owner) * grid.tensor + at.tensor);
}
/* Allocates the arrays. The caller has set job, cuts and all_slots, and closes *c also after a
 * failure. */
pst_status pst_checker_open(pst_checker *c);
void pst_checker_close(pst_checker *c);
/* Returns EINPUT with the message "<instruction a> <what> <instruction b>". */
pst_status pst_checker_fail(const pst_checker *c, uint32_t rank, uint32_t a, const char *what,
                            uint32_t b);
/* Returns EINPUT with the message "<instruction i>: <why>". */
pst_status pst_checker_fail_at(const pst_checker *c, uint32_t rank, uint32_t i, const char *why);
#endif
