/* Private to this component: the interface of an algorithm. An algorithm is a list of steps per
 * rank that is never stored: it computes step i when asked. run.c starts each step once the steps
 * that it depends on are done.
 *
 * Rules that exclude deadlock on any transport: number the messages, the same at both ends. Then on
 * each rank the steps ascend in the numbers of their messages, a step depends on earlier steps
 * only, and there are never more than PST_COLL_WINDOW steps between the first and the last one of
 * equal number. */
#ifndef PST_COMM_COLLECTIVE_ALGORITHM_H
#define PST_COMM_COLLECTIVE_ALGORITHM_H
#include "comm/collective/collective.h"

/* SEGMENT: large messages are split into segments: one is added while it is in a near cache, and
 * the next one is under way. SCRATCH: memory for received segments that are to be added. */
enum {
    PST_COLL_SEGMENT = 256 << 10,
    PST_COLL_SCRATCH = 1 << 20,
    PST_COLL_MIN_SEGMENT = 4096,
    PST_COLL_MAX_SLOTS = 256
};
#define PST_COLL_WINDOW(n) (8 * (n) + 64)
#define PST_COLL_NO_STEP UINT64_MAX

/* Parts of other collectives, both to member 0. */
enum { PST_COLL_REDUCE = PST_COLL_KINDS, PST_COLL_GATHER };

/* PUT: copies into this rank's outbox. SKIP: does nothing, and is done when its dependencies
 * are. */
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
    uint32_t peer, seq; /* index of the member; number of the message within the run */
    int in_slot; /* RECV: into the slot, not to `at`; ADD, COPY: from the slot; OF_PEER: from a slot
                    of the peer's outbox */
    uint64_t slot, at, bytes; /* at: offset in the run's memory */
    uint64_t after[3];        /* steps that must be done before; PST_COLL_NO_STEP: none */
    int after_all;            /* all earlier steps must be done before */
} pst_coll_step;

typedef struct pst_coll_algorithm pst_coll_algorithm;
/* One algorithm among the n members of a group. A collective is one run, or with `host` several
 * runs one after another. */
typedef struct {
    const pst_coll_algorithm *algorithm;
    uint32_t kind;        /* pst_coll_kind, PST_COLL_REDUCE or PST_COLL_GATHER */
    const uint32_t *rank; /* [n] rank in the transport */
    uint32_t n, me, root;
    const uint64_t *offset; /* [n+1] start of each part in mem */
    uint64_t segment, n_segment;
    uint64_t n_slot, slot_bytes;
    uint64_t n_step;     /* steps of this rank */
    uint32_t seq, n_seq; /* first sequence number of this collective's messages; count of numbers,
                            the same on all ranks */
} pst_coll_run;

/* What the choice of an algorithm depends on. */
typedef struct {
    uint32_t kind, n;
    uint64_t bytes;                /* in total */
    uint32_t n_host, max_per_host; /* max_per_host: the most members on one host */
    int contiguous;                /* the members of each host are consecutive */
    int shared;                    /* the members share memory */
} pst_coll_shape;

/* Costs on the critical path of one rank: rounds of dependent messages within a host and between
 * hosts; messages; bytes copied within the host; bytes through the host's link, of all its ranks;
 * bytes added. */
typedef struct {
    double local_rounds, remote_rounds, messages, local_bytes, remote_bytes, added;
} pst_coll_cost;

struct pst_coll_algorithm {
    const char *name;
    uint32_t kinds; /* one bit per pst_coll_kind */
    /* why the algorithm cannot run this shape; returns NULL if it can; NULL: it always can */
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
uint64_t pst_coll_largest(const pst_coll_run *r); /* bytes of the largest part */
/* Splits `bytes` into segments, and chooses the number of slots: enough for at most `uses` messages
 * that wait to be added. */
void pst_coll_split(pst_coll_run *r, uint64_t bytes, uint64_t uses);
void pst_coll_cover_part(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint32_t part,
                         uint64_t segment);
void pst_coll_cover_all(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op,
                        uint64_t segment);
/* Assigns a slot to the RECV of the use-th message that is added, and to the step that reads it. */
void pst_coll_use_slot(const pst_coll_run *r, pst_coll_step *step, uint64_t use);
#endif
