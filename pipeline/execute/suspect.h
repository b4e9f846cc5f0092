/* Who holds a waiting job up? Pure: from the positions of its ranks and their lists, follows what
 * the asking rank waits for from rank to rank, to one that computes, has left, posted a message
 * that does not arrive, or is at another place of the program than the others. How long that may
 * last is not decided here (src/health/hang.c). */
#ifndef PST_PIPELINE_EXECUTE_SUSPECT_H
#define PST_PIPELINE_EXECUTE_SUSPECT_H
#include "base/position.h"
#include "pipeline/compile/job.h"

/* BUSY: it computes, or is outside of lists and collectives. LOST: both ends have posted the
 * message. SKIPPED: it has gone past a collective in which others wait. DISAGREE: it waits in
 * another collective than the others. DEADLOCK: ranks wait for each other in turn. NOBODY:
 * something may be moving, or a rank is not known. */
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
    int known, left; /* its position can be read; it has gone in good order */
    pst_position_view at;
} pst_suspect_rank;

typedef struct {
    uint32_t n_rank, group; /* group: tensor ranks of a group, which are neighbours; 0 or 1: none.
                               Where groups differ (the grid of job[1]), the most */
    pst_suspect_rank *rank; /* [n_rank] */
    const pst_job *job[2];  /* evaluation (may be NULL), training */
    const pst_cut *cut[2];
} pst_suspect_scene;

typedef struct {
    pst_suspect_kind kind;
    /* victim: the rank that waits for it; LOST: the message's sender and receiver */
    uint32_t culprit, victim;
    uint64_t op; /* SKIPPED, DISAGREE: where the logs differ, counted from the start of the job */
    /* LOST, BUSY: of the victim, the transfer that it waits for; PST_NONE in a collective */
    uint32_t instr;
    /* from the asking rank on; the last one's peer included */
    uint32_t n_chain, chain[PST_SUSPECT_CHAIN];
    uint64_t print; /* the same as before: nothing of this has moved */
} pst_suspect;

void pst_suspect_find(const pst_suspect_scene *scene, uint32_t rank, pst_suspect *suspect);
/* The rank that has left out what the others did (SKIPPED), by the ranks' logs; a rank that is in
 * another place than one other, when it cannot be told who is right (DISAGREE). PST_NONE: the logs
 * agree. */
uint32_t pst_suspect_order(const pst_suspect_scene *scene, pst_suspect *suspect);

/* "B of h.3.attn, micro-batch 2, step 14", "collective 17 (all-gather, 96 bytes), step 14", ...
 * Returns buffer. coll_name: what a kind of collective is called (pipeline knows none). */
typedef const char *(*pst_suspect_coll_name)(uint32_t kind);
const char *pst_suspect_where(const pst_suspect_scene *scene, uint32_t rank,
                              pst_suspect_coll_name coll_name, char *buffer, uint32_t bytes);
#endif
