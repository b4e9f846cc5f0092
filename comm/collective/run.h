/* Private to this component: one rank's collectives. collective.c starts them, run.c takes them on. */
#ifndef PST_COMM_COLLECTIVE_RUN_H
#define PST_COMM_COLLECTIVE_RUN_H
#include "comm/collective/algorithm.h"
#include "comm/collective/host.h"
#include "comm/collective/outbox.h"

typedef enum { PST_COLL_WAITS, PST_COLL_UNDER_WAY, PST_COLL_DONE } pst_coll_state;
typedef struct {
    pst_coll_step step;
    pst_coll_state state;
    uint64_t request, message; /* under way; message: as others read it, see base/position.h */
} pst_coll_window_step;

struct pst_coll {
    pst_transport *t;
    uint32_t *rank, n, me, channel; /* rank: [n] of the transport */
    uint32_t seq; /* the same on every rank: all start the same collectives in the same order */
    const pst_coll_algorithm *forced;
    pst_coll_host_map *hosts; /* NULL: all on one */
    pst_coll_outboxes *outboxes;
    int shared; /* outboxes are there on all */
    uint64_t explained[PST_COLL_KINDS];

    pst_coll_kind kind;
    uint8_t *mem;
    uint64_t bytes; /* as given */
    pst_dtype dtype;
    uint32_t root;
    uint64_t *offset; /* [n+1] */
    pst_coll_run run[PST_COLL_RUNS];
    uint32_t n_run, now;    /* now == n_run: none is under way */
    uint64_t first, behind; /* steps of this run: the first that is not done; behind the last that
                               has been looked at */
    pst_coll_window_step *window; /* [PST_COLL_WINDOW(n)] step i at i % that */
    uint32_t n_open;

    uint64_t mismatch;
    const char *file, *function; /* see pst_coll_place */
    uint32_t line;
    pst_position *at, unwatched; /* what it says; where to say it when nobody asks */
    uint8_t *scratch;
    pst_status broken; /* a failure stays: peers are in an unknown state */
};

/* share.c: what follows once one of the all-gathers of pst_coll_share is done. */
pst_status pst_coll_share_next(pst_coll *c);

/* --- what others see: comm/collective/say.c --------------------------------------------------- */

void pst_coll_say(pst_coll *c, pst_activity activity);
void pst_coll_say_start(pst_coll *c);
uint64_t pst_coll_say_post(pst_coll *c, const pst_transfer *t); /* returns the message */

/* --- sums: comm/collective/add.c -------------------------------------------------------------- */

void pst_coll_add(pst_dtype dtype, void *sum, const void *more, uint64_t bytes);
#endif
