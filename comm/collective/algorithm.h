/* Private to this component: what an algorithm is. It is a list of steps per rank that is never written
 * down: it computes step i when asked. run.c starts each step once the steps that it names are
 * done.
 *
 * So that no two ranks wait for each other, whatever the transport: let every message have a
 * number, the same at both ends; then each rank's steps ascend in the numbers of their messages, a
 * step waits for earlier ones only, and there are never more than PST_COLL_WINDOW steps between the
 * first and the last one of equal number. */
#ifndef PST_COMM_COLLECTIVE_ALGORITHM_H
#define PST_COMM_COLLECTIVE_ALGORITHM_H
#include "comm/collective/collective.h"

/* SEGMENT: large messages are cut, so that what was received is added while it is in a near cache
 * and the next one is under way. SCRATCH: room for segments that are to be added. */
enum {
    PST_COLL_SEGMENT = 256 << 10,
    PST_COLL_SCRATCH = 1 << 20,
    PST_COLL_LEAST_SEGMENT = 4096,
    PST_COLL_MOST_SLOTS = 256
};
#define PST_COLL_WINDOW(n) (8 * (n) + 64)
#define PST_COLL_NO_STEP UINT64_MAX

/* Halves of collectives, to member 0. */
enum { PST_COLL_REDUCE = PST_COLL_KINDS, PST_COLL_GATHER };

/* PUT: into this rank's outbox. SKIP: nothing to do, once what it waits for is done. */
typedef enum {
    PST_COLL_SKIP,
    PST_COLL_SEND,
    PST_COLL_RECV,
    PST_COLL_PUT,
    PST_COLL_ADD,
    PST_COLL_COPY
} pst_coll_op;
enum { PST_COLL_OF_PEER = 2 };
typedef struct {
    pst_coll_op op;
    uint32_t peer, seq; /* member; number of the message among those of the run */
    int in_slot; /* RECV: into the slot, not to `at`; ADD, COPY: from it; OF_PEER: of its outbox */
    uint64_t slot, at, bytes; /* at: offset in the run's memory */
    uint64_t after[3];        /* what has to be done before, PST_COLL_NO_STEP: nothing */
    int after_all;            /* ... everything */
} pst_coll_step;

typedef struct pst_coll_algorithm pst_coll_algorithm;
/* One algorithm among the n members of a group; a collective is one or, by host, several of these
 * in turn. */
typedef struct {
    const pst_coll_algorithm *algorithm;
    uint32_t kind;        /* pst_coll_kind, or one of the halves */
    const uint32_t *rank; /* [n] of the transport */
    uint32_t n, me, root;
    const uint64_t *offset; /* [n+1] of the parts in mem */
    uint64_t segment, n_segment;
    uint64_t n_slot, slot_bytes;
    uint64_t n_step;     /* of this rank */
    uint32_t seq, n_seq; /* first number of its messages; how many numbers, the same on all ranks */
} pst_coll_run;

/* What the choice depends on. */
typedef struct {
    uint32_t kind, n;
    uint64_t bytes;        /* in total */
    uint32_t n_host, most; /* most: ranks on one host */
    int in_turn;           /* members of each host follow one another */
    int shared;            /* they share memory */
} pst_coll_shape;

/* On the longest way, of one rank: turns of one message behind another; messages; bytes copied
 * within the host, or through the host's link for all its ranks; bytes added. */
typedef struct {
    double near_turns, far_turns, messages, near_bytes, far_bytes, added;
} pst_coll_cost;

struct pst_coll_algorithm {
    const char *name;
    uint32_t kinds; /* a bit for each */
    /* NULL: always can; else why it cannot, or NULL */
    const char *(*reject)(const pst_coll_shape *shape);
    void (*cost)(const pst_coll_shape *shape, pst_coll_cost *cost);
    void (*plan)(pst_coll_run *run); /* fills in n_segment, n_slot, slot_bytes, n_step, n_seq */
    void (*step)(const pst_coll_run *run, uint64_t i, pst_coll_step *step);
};
extern const pst_coll_algorithm pst_coll_doubling, pst_coll_direct, pst_coll_tree, pst_coll_ring,
    pst_coll_by_host, pst_coll_shared;

#define PST_COLL_BIT(kind) (UINT32_C(1) << (kind))
static inline int pst_coll_adds(uint32_t kind) {
    return kind == PST_COLL_ALL_REDUCE || kind == PST_COLL_REDUCE_SCATTER ||
           kind == PST_COLL_REDUCE;
}

/* --- for algorithms: comm/collective/step.c --------------------------------------------------- */

uint32_t pst_coll_log2(uint32_t n); /* rounded up */
uint64_t pst_coll_total(const pst_coll_run *r);
uint64_t pst_coll_largest(const pst_coll_run *r); /* part */
/* Cuts `bytes`, and gives slots for at most `uses` messages that wait to be added. */
void pst_coll_cut(pst_coll_run *r, uint64_t bytes, uint64_t uses);
void pst_coll_cover_part(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint32_t part,
                         uint64_t segment);
void pst_coll_cover_all(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op,
                        uint64_t segment);
/* Puts a RECV, or what takes from it, into the slot of the use-th message that is added. */
void pst_coll_use_slot(const pst_coll_run *r, pst_coll_step *step, uint64_t use);
#endif
