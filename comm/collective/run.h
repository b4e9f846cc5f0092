/* Private to this component: the state of one rank's collectives. collective.c starts them, run.c
 * advances them. */
#ifndef PST_COMM_COLLECTIVE_RUN_H
#define PST_COMM_COLLECTIVE_RUN_H
#include "comm/collective/algorithm.h"
#include "comm/collective/host.h"
#include "comm/collective/outbox.h"

typedef enum { PST_COLL_WAITS, PST_COLL_UNDER_WAY, PST_COLL_DONE } pst_coll_state;
typedef struct {
    pst_coll_step step;
    pst_coll_state state;
    /* request of a send or receive under way; message: identifies it for other ranks
     * (base/position.h) */
    uint64_t request, message;
} pst_coll_window_step;

struct pst_coll {
    pst_transport *t;
    uint32_t *rank, n, me, channel; /* rank: [n] rank of each member in the transport */
    /* next message number; equal on all ranks, because all start the same collectives in the same
     * order */
    uint32_t seq;
    const pst_coll_algorithm *forced;
    pst_coll_host_map *hosts; /* NULL: all members on one host */
    pst_coll_outboxes *outboxes;
    int shared; /* 1: all members have mapped all outboxes */
    uint64_t explained[PST_COLL_KINDS];

    pst_coll_kind kind;
    uint8_t *mem;
    uint64_t bytes; /* size given by the caller of the collective */
    pst_dtype dtype;
    uint32_t root;
    uint64_t *offset; /* [n+1] offset of each part */
    pst_coll_run run[PST_COLL_RUNS];
    uint32_t n_run, current; /* current == n_run: no collective is under way */
    /* steps of the current run: [first, end) are in `window`, all before `first` are done */
    uint64_t first, end;
    pst_coll_window_step *window; /* [PST_COLL_WINDOW(n)] step i is at index i % PST_COLL_WINDOW(n)
                                   */
    uint32_t n_open;

    uint64_t mismatch;
    const char *file, *function; /* see pst_coll_place */
    uint32_t line;
    /* where the state is published: given by pst_coll_watch; `unwatched` before */
    pst_position *position, unwatched;
    uint8_t *scratch;
    /* status of the first failure, which every later call returns, because the state of the peers
     * is unknown */
    pst_status broken;
};

/* share.c: to be called after each of the two all-gathers of pst_coll_share. */
pst_status pst_coll_share_next(pst_coll *c);

/* --- the published position: comm/collective/publish.c ---------------------------------------- */

void pst_coll_publish(pst_coll *c, pst_activity activity);
void pst_coll_publish_start(pst_coll *c);
/* returns the identity of the message (base/position.h) */
uint64_t pst_coll_publish_post(pst_coll *c, const pst_transfer *t);

/* --- sums: comm/collective/add.c -------------------------------------------------------------- */

void pst_coll_add(pst_dtype dtype, void *sum, const void *more, uint64_t bytes);
#endif
