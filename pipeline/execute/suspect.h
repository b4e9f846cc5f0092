/* Finds the rank that holds up a waiting job. A pure function: from the positions of the ranks and
 * their lists, it follows the chain of waits from the asking rank to a rank that computes, has
 * left, has posted a message that does not arrive, or is at another place of the program than the
 * others. How long that may last is decided in src/health/hang.c. */
#ifndef PST_PIPELINE_EXECUTE_SUSPECT_H
#define PST_PIPELINE_EXECUTE_SUSPECT_H
#include "base/position.h"
#include "pipeline/compile/job.h"

/* BUSY: it computes, or is outside of lists and collectives. LOST: both ends have posted the
 * message. SKIPPED: it has passed a collective in which others wait. DISAGREE: it waits in another
 * collective than the others. DEADLOCK: a cycle of waits. NOBODY: something may be moving, or a
 * rank's position is unknown. */
typedef enum {
    PST_SUSPECT_NOBODY,
    PST_SUSPECT_BUSY,
    PST_SUSPECT_LOST,
    PST_SUSPECT_LEFT,
    PST_SUSPECT_SKIPPED,
    PST_SUSPECT_DISAGREE,
    PST_SUSPECT_DEADLOCK
} pst_suspect_kind;

enum { PST_SUSPECT_CHAIN = 64 };

typedef struct {
    int known, left; /* known: the rank's position can be read; left: it has ended normally */
    pst_position_view at;
} pst_suspect_rank;

typedef struct {
    /* group: size of a tensor group, whose ranks are neighbours; 0 or 1: none. If sizes differ
     * (see the grid of job[1]), the largest */
    uint32_t n_rank, group;
    pst_suspect_rank *rank; /* [n_rank] */
    const pst_job *job[2];  /* evaluation (may be NULL), training */
    const pst_cut *cut[2];
} pst_suspect_scene;

typedef struct {
    pst_suspect_kind kind;
    /* victim: the rank that waits for the culprit. LOST: sender and receiver of the message */
    uint32_t culprit, victim;
    /* SKIPPED, DISAGREE: the log entry that differs, counted from the start of the job */
    uint64_t op;
    /* LOST, BUSY: the transfer that the victim waits for; PST_NONE: it waits in a collective */
    uint32_t instr;
    /* the asking rank, and every rank that it waits for in turn */
    uint32_t n_chain, chain[PST_SUSPECT_CHAIN];
    uint64_t fingerprint; /* equal in two calls: nothing in the chain has moved */
} pst_suspect;

void pst_suspect_find(const pst_suspect_scene *scene, uint32_t rank, pst_suspect *suspect);
/* Compares the ranks' logs. Returns the rank that skipped what the others did (SKIPPED), or a rank
 * that differs from another one if it is unknown which is right (DISAGREE). PST_NONE: the logs
 * agree. */
uint32_t pst_suspect_order(const pst_suspect_scene *scene, pst_suspect *suspect);

/* "B of h.3.attn, micro-batch 2, step 14", "collective 17 (all-gather, 96 bytes), step 14", ...
 * Returns buffer. coll_name: name of a kind of collective (pipeline/ does not know them). */
typedef const char *(*pst_suspect_coll_name)(uint32_t kind);
const char *pst_suspect_where(const pst_suspect_scene *scene, uint32_t rank,
                              pst_suspect_coll_name coll_name, char *buffer, uint32_t bytes);
#endif
