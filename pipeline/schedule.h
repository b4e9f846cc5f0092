/* Schedules: in which order each rank runs the F, B, W (or fused BW) of its chunks and micro-batches. Generators know
 * nothing of memory or messages; instr.h compiles their order into instructions. */
#ifndef PST_PIPELINE_SCHEDULE_H
#define PST_PIPELINE_SCHEDULE_H
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

/* X(name, text) */
#define PST_OPCODE_LIST(X)                                                                                             \
    X(F, "F") X(B, "B") X(W, "W") X(BW, "BW")     /* programs of a chunk for one micro-batch */                        \
    X(SEND, "SEND") X(RECV, "RECV")               /* one value to or from a peer */                                    \
    X(REDUCE, "REDUCE")                           /* adds a received (or second) accumulator of a shared parameter */  \
    X(NORM, "NORM")                               /* this rank's fp64 sums of squares, one per owned parameter */      \
    X(GATHER, "GATHER")                           /* rank 0: all sums in name order -> norm and clip factor */         \
    X(STEP, "STEP")                               /* optimizer on this rank's parameters */
typedef enum {
#define PST_OPCODE_ENUM(name, text) PST_OP_##name,
    PST_OPCODE_LIST(PST_OPCODE_ENUM)
#undef PST_OPCODE_ENUM
    PST_OP_COUNT
} pst_opcode;
const char *pst_opcode_name(pst_opcode op);

typedef struct { uint8_t opcode; uint16_t chunk; uint32_t micro; } pst_action;

typedef struct {
    char name[32];
    uint32_t n_rank, n_chunk, n_micro;
    int split;                  /* 1: W is an action of its own; 0: fused BW */
    int backward;               /* 0: F only (evaluation) */
    uint32_t *rank_of_chunk;    /* [n_chunk] */
    uint32_t *n_action;         /* [n_rank] */
    pst_action **action;        /* [n_rank][n_action] */
} pst_schedule;

typedef struct {
    const char *name, *help;
    int split;
    /* n_chunk = n_rank for the schedules with one chunk per rank. */
    pst_status (*generate)(uint32_t n_rank, uint32_t n_micro, pst_schedule **schedule);
} pst_schedule_row;
/* "gpipe", "1f1b" (both with fused BW, as published), "1f1b-early" (W last of its micro-batch, input gradient sent
 * first), and "forward" (evaluation). */
const pst_schedule_row *pst_schedule_rows(uint32_t *n);
/* EINPUT with "did you mean" when unknown. */
pst_status pst_schedule_find(const char *name, const pst_schedule_row **row);
pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_micro, pst_schedule **schedule);
void pst_schedule_close(pst_schedule *schedule);
/* Each chunk's F, B, W of each micro-batch once, F before B before W, W (BW) ascending in micro-batch. */
pst_status pst_schedule_check(const pst_schedule *schedule);
pst_status pst_schedule_print(const pst_schedule *schedule, FILE *out);
#endif
