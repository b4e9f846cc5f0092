/* The file format of recorded steps (recorder.h): the tensors that one rank has read and written. A
 * file begins with a pst_record_head; then follow pst_records, each followed by its stored
 * elements, padded to 8 bytes. Only the build that wrote a file reads it, on the same kind of
 * machine; the format is not meant for storage. */
#ifndef PST_RANK_RECORD_H
#define PST_RANK_RECORD_H
#include "graph/graph.h"

enum { PST_RECORD_VERSION = 1 };
#define PST_RECORD_MAGIC "penstock record"

typedef struct {
    char magic[16];
    uint32_t version, bytes; /* PST_RECORD_VERSION, sizeof(pst_record) */
    uint32_t rank, n_rank;
    uint32_t stage, replica, tensor; /* place of the rank in the grid */
    uint32_t n_tensor;               /* tensor degree of that stage */
    uint64_t graph;                  /* pst_graph_hash of the unsplit graph */
} pst_record_head;

/* The phases of a step, in program order. */
typedef enum {
    PST_RECORD_START,    /* fp32 weights and optimizer state before a run's first step */
    PST_RECORD_FORWARD,  /* inputs and outputs of F */
    PST_RECORD_BACKWARD, /* inputs and outputs of B and W */
    PST_RECORD_GRADIENT, /* gradients after REDUCE and before clipping, recorded by their owners */
    PST_RECORD_NUMBER,   /* loss, norm, clip factor, learning rate, ... as used by this rank */
    PST_RECORD_END       /* fp32 weights and optimizer state after the step */
} pst_record_phase;

/* READ: an input of an operator, before the launch. DATA: an input that is data. PARAM: a parameter
 * as operators read it, once per step and rank. WRITTEN: an output of an operator or exchange.
 * AGAIN: an output of a recomputation. REPEATED: what the reference kernel makes of the same inputs
 * (repeat.h). SUM, SCALAR and STATE belong to a phase, not to an
 * operator. */
typedef enum {
    PST_RECORD_READ,
    PST_RECORD_DATA,
    PST_RECORD_PARAM,
    PST_RECORD_WRITTEN,
    PST_RECORD_AGAIN,
    PST_RECORD_SUM,
    PST_RECORD_SCALAR,
    PST_RECORD_STATE,
    PST_RECORD_REPEATED
} pst_record_kind;

/* A record: one tensor, or a range of a parameter's elements. Unused members are 0. */
typedef struct {
    uint32_t phase, kind; /* pst_record_phase, pst_record_kind */
    uint64_t step;        /* from 0 */
    uint32_t micro;       /* micro-batch of the step; PST_NONE: none */
    /* position: order within (step, phase, micro); part: order among the operands of one
     * operator */
    uint32_t position, part;
    uint32_t rank, pass, dtype;
    uint32_t exchange; /* 1: the record is of an exchange among tensor ranks */
    /* number of elements that follow: those with an index that is a multiple of `stride` */
    uint32_t stored;
    uint64_t stride;
    uint64_t from, n; /* elements [from, from + n) of the tensor; from > 0 for ranges of parameters
                         only */
    uint64_t digest;  /* pst_hash_bytes of these n elements, without gaps */
    uint32_t n_dim;
    uint64_t dim[PST_MAX_DIM];
    pst_slice slice;                /* the part of a parameter that this tensor rank has */
    char node[PST_NAME_MAX];        /* the operator; "" for phases without one */
    char tensor[PST_NAME_MAX + 32]; /* "x.out", "gradient of x.out, 1", "x.saved.0", "x.weight" */
} pst_record;
#endif
