/* Private to this component: the interface of an algorithm. For each rank, an algorithm defines a
 * list of steps, which is not stored: a function computes step i. run.c starts a step when the
 * steps on which it depends are done.
 *
 * Rules that exclude deadlock on any transport: every message has a number, equal at both ends; on
 * each rank, steps are sorted by the number of their message; a step depends on earlier steps only;
 * and steps with the same number span at most PST_COLL_WINDOW steps. */
#ifndef PST_COMM_COLLECTIVE_ALGORITHM_H
#define PST_COMM_COLLECTIVE_ALGORITHM_H
#include "comm/collective/collective.h"

/* SEGMENT: bytes of the segments into which large messages are split: a segment fits in a
 * processor's cache while it is added, and the next one is in transit meanwhile. SCRATCH: bytes of
 * memory for received segments. MAX_SLOTS: maximum number of segments in that memory. */
enum {
    PST_COLL_SEGMENT = 256 << 10,
    PST_COLL_SCRATCH = 1 << 20,
    PST_COLL_MIN_SEGMENT = 4096,
    PST_COLL_MAX_SLOTS = 256
};
#define PST_COLL_WINDOW(n) (8 * (n) + 64)
#define PST_COLL_NO_STEP UINT64_MAX

/* Collectives that only exist as parts of others; both send to member 0. */
enum { PST_COLL_REDUCE = PST_COLL_KINDS, PST_COLL_GATHER };

/* PUT: copies into this rank's outbox (outbox.h). ADD, COPY: read a slot with received data. SKIP:
 * does nothing. */
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
    uint32_t peer, seq; /* peer: index of the member; seq: number of the message within the run */
    /* 1: RECV writes to `slot` instead of `at`, ADD and COPY read `slot`; PST_COLL_OF_PEER: they
     * read a slot of the peer's outbox */
    int in_slot;
    uint64_t slot, at, bytes; /* slot: index; at: offset in the memory of the collective, bytes */
    /* steps that must be done before this one starts; PST_COLL_NO_STEP: none */
    uint64_t after[3];
    int after_all; /* 1: all earlier steps must be done before */
} pst_coll_step;

typedef struct pst_coll_algorithm pst_coll_algorithm;
/* One algorithm that runs among n members. A collective is one run or, with algorithm `host`,
 * several consecutive runs. */
typedef struct {
    const pst_coll_algorithm *algorithm;
    uint32_t kind;        /* pst_coll_kind, PST_COLL_REDUCE or PST_COLL_GATHER */
    const uint32_t *rank; /* [n] rank of each member in the transport */
    uint32_t n, me, root;
    const uint64_t *offset; /* [n+1] offset of each part in the memory of the collective */
    uint64_t segment, n_segment;
    uint64_t n_slot, slot_bytes;
    uint64_t n_step; /* number of steps of this rank */
    /* first message number of this run; how many numbers it uses, equal on all ranks */
    uint32_t seq, n_seq;
} pst_coll_run;

/* The properties of a collective on which the choice of an algorithm depends. */
typedef struct {
    uint32_t kind, n;
    uint64_t bytes;                /* total size */
    uint32_t n_host, max_per_host; /* number of hosts; largest number of members on one host */
    int contiguous;                /* 1: the members of each host have consecutive indices */
    int shared;                    /* 1: the members have set up shared memory */
} pst_coll_shape;

/* Cost of the critical path of one rank: rounds of dependent messages within a host, and between
 * hosts; number of messages; bytes copied within the host; bytes that all ranks of the host send
 * over its network link; bytes added. */
typedef struct {
    double local_rounds, remote_rounds, messages, local_bytes, remote_bytes, added;
} pst_coll_cost;

struct pst_coll_algorithm {
    const char *name;
    uint32_t kinds; /* supported kinds: bits PST_COLL_BIT(kind) */
    /* returns the reason why the algorithm does not support this shape, or NULL; a NULL pointer:
     * every shape is supported */
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

uint32_t pst_coll_log2(uint32_t n); /* logarithm to base 2, rounded up */
uint64_t pst_coll_total(const pst_coll_run *r);
uint64_t pst_coll_largest(const pst_coll_run *r); /* total bytes; bytes of the largest part */
/* Splits `bytes` into segments, and chooses the number of slots for at most `uses` received
 * messages that wait to be added. */
void pst_coll_split(pst_coll_run *r, uint64_t bytes, uint64_t uses);
void pst_coll_cover_part(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint32_t part,
                         uint64_t segment);
void pst_coll_cover_all(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op,
                        uint64_t segment);
/* Assigns a slot to a step: to the RECV of the use-th message that is added, or to the ADD that
 * reads this message. */
void pst_coll_use_slot(const pst_coll_run *r, pst_coll_step *step, uint64_t use);
#endif
