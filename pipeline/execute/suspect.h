/* Finds the rank that blocks a waiting job. From the positions and instruction lists of all ranks,
 * the search follows the chain of waits from the asking rank to a rank that computes, has exited,
 * has posted a message that does not arrive, or is at another place of the program than the other
 * ranks. Time limits are in src/health/hang.c. */
#ifndef PST_PIPELINE_EXECUTE_SUSPECT_H
#define PST_PIPELINE_EXECUTE_SUSPECT_H
#include "base/position.h"
#include "pipeline/compile/job.h"

/* What the blocking rank (`culprit`) does. NOBODY: no blocking rank is known, because ranks may be
 * making progress or a position is unknown. BUSY: it computes, or runs code outside instruction
 * lists and collectives. LOST: both ends have posted a message that does not arrive. LEFT: it has
 * exited. SKIPPED: it has passed a collective in which others wait. DISAGREE: it waits in another
 * collective than the others. DEADLOCK: a cycle of waits. */
typedef enum {
    PST_SUSPECT_NOBODY,
    PST_SUSPECT_BUSY,
    PST_SUSPECT_LOST,
    PST_SUSPECT_LEFT,
    PST_SUSPECT_SKIPPED,
    PST_SUSPECT_DISAGREE,
    PST_SUSPECT_DEADLOCK
} pst_suspect_kind;

enum { PST_SUSPECT_CHAIN = 64 }; /* maximum number of ranks in a chain of waits */

typedef struct {
    /* known: 1: the position of the rank can be read; left: 1: the rank has exited normally */
    int known, left;
    pst_position_view at;
} pst_suspect_rank;

typedef struct {
    /* group: number of ranks of a tensor group, which have consecutive numbers; 0 or 1: no tensor
     * parallelism. If sizes differ (see the grid of job[1]), the largest */
    uint32_t n_rank, group;
    pst_suspect_rank *rank; /* [n_rank] */
    const pst_job *job[2];  /* [0]: evaluation (may be NULL), [1]: training */
    const pst_cut *cut[2];
} pst_suspect_scene;

typedef struct {
    pst_suspect_kind kind;
    /* victim: the rank that waits for the blocking rank. LOST: the sender and the receiver */
    uint32_t culprit, victim;
    /* SKIPPED, DISAGREE: number of the first collective that differs, counted from the start of the
     * job */
    uint64_t op;
    /* LOST, BUSY: the instruction of the transfer for which the victim waits; PST_NONE: the victim
     * waits in a collective */
    uint32_t instr;
    /* the chain of waits: the asking rank, the rank for which it waits, and so on */
    uint32_t n_chain, chain[PST_SUSPECT_CHAIN];
    /* equal in two calls if no rank of the chain has made progress in between */
    uint64_t fingerprint;
} pst_suspect;

/* Finds the blocking rank for which `rank` waits. */
void pst_suspect_find(const pst_suspect_scene *scene, uint32_t rank, pst_suspect *suspect);
/* Compares the logs of collectives of all ranks. Returns the rank that skipped a collective
 * (SKIPPED), or a rank that differs from another one if it is unknown which of them is right
 * (DISAGREE); PST_NONE: the logs agree. */
uint32_t pst_suspect_order(const pst_suspect_scene *scene, pst_suspect *suspect);

/* Formats the position of a rank, such as "B of h.3.attn (chunk 1), micro-batch 2, step 14", into
 * buffer[0..bytes). Returns `buffer`. coll_name: returns the name of a kind of collective (this
 * component does not know the names). */
typedef const char *(*pst_suspect_coll_name)(uint32_t kind);
const char *pst_suspect_where(const pst_suspect_scene *scene, uint32_t rank,
                              pst_suspect_coll_name coll_name, char *buffer, uint32_t bytes);
#endif
