/* The file format of recorded steps (recorder.h): what one rank has computed, number by number.
 * A file begins with a pst_record_head; then follow records, each with its stored elements, padded
 * to 8 bytes. Written and read by the same build on one kind of machine; not for keeping. */
#ifndef PST_RANK_RECORD_H
#define PST_RANK_RECORD_H
#include "graph/graph.h"

enum { PST_RECORD_VERSION = 1 };
#define PST_RECORD_MAGIC "penstock record"

typedef struct {
    char magic[16];
    uint32_t version, bytes; /* PST_RECORD_VERSION, sizeof(pst_record) */
    uint32_t rank, n_rank;
    uint32_t stage, replica, tensor; /* the rank's place in the grid */
    uint32_t n_tensor;               /* tensor degree of its stage */
    uint64_t graph;                  /* pst_graph_hash of the whole graph */
} pst_record_head;

/* In program order within a step. */
typedef enum {
    PST_RECORD_START,    /* fp32 weights and optimizer state before a run's first step */
    PST_RECORD_FORWARD,  /* what F reads and writes */
    PST_RECORD_BACKWARD, /* what B and W read and write */
    PST_RECORD_GRADIENT, /* gradients after REDUCE, before clipping, by their owners */
    PST_RECORD_NUMBER,   /* loss, norm, clip factor, learning rate, ... as this rank used them */
    PST_RECORD_END       /* fp32 weights and optimizer state after the step */
} pst_record_phase;

/* READ: an input of an operator, before its launch. DATA: the same, of data. PARAM: a parameter as
 * operators read it, once per step and rank. WRITTEN: what an operator or an exchange has written.
 * AGAIN: the same, by recomputation. The others are of a whole phase. */
typedef enum {
    PST_RECORD_READ,
    PST_RECORD_DATA,
    PST_RECORD_PARAM,
    PST_RECORD_WRITTEN,
    PST_RECORD_AGAIN,
    PST_RECORD_SUM,
    PST_RECORD_SCALAR,
    PST_RECORD_STATE
} pst_record_kind;

/* One tensor, or one piece of a parameter. All that is not used is 0. */
typedef struct {
    uint32_t phase, kind; /* pst_record_phase, pst_record_kind */
    uint64_t step;        /* from 0 */
    uint32_t micro;       /* of the step; PST_NONE: not of one */
    /* order of the step's program within (step, phase, micro); `part`: order among operands */
    uint32_t position, part;
    uint32_t rank, pass, dtype;
    uint32_t exchange; /* the record is of an exchange among tensor ranks */
    uint32_t stored;   /* elements that follow: those whose index is a multiple of `stride` */
    uint64_t stride;
    uint64_t from, n; /* elements [from, from + n) of the tensor; from > 0 for pieces only */
    uint64_t digest;  /* pst_hash_bytes of these n elements, without gaps */
    uint32_t n_dim;
    uint64_t dim[PST_MAX_DIM];
    pst_slice slice;                /* of a parameter: what this tensor rank has of it */
    char node[PST_NAME_MAX];        /* the operator; "" for phases without one */
    char tensor[PST_NAME_MAX + 32]; /* "x.out", "gradient of x.out, 1", "x.saved.0", "x.weight" */
} pst_record;
#endif
