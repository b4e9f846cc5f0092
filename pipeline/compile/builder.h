/* The state while one rank's list is compiled, and functions that append to the list. */
#ifndef PST_PIPELINE_COMPILE_BUILDER_H
#define PST_PIPELINE_COMPILE_BUILDER_H
#include "pipeline/compile/fifo.h"
#include "pipeline/compile/job.h"
#include "pipeline/schedule/unit_time.h"

typedef struct {
    uint32_t instr, on;
} pst_dep_pair;

typedef struct pst_rounds pst_rounds;
typedef struct pst_summary pst_summary;
typedef struct pst_early pst_early;

struct pst_job_builder {
    const pst_job_spec *spec;
    const pst_instr_cost *cost;
    pst_job *job;
    pst_rounds *rounds; /* [grid.pipeline]; NULL: gradients are not sharded */
    /* The current lane. */
    uint32_t lane, replica, n_micro, n_piece; /* n_piece: over all parameters */
    const pst_schedule *schedule;
    const pst_cut *cut;
    const pst_share *share;
    pst_slots *slots;
    pst_summary *sharded; /* [n_chunk] only for a single lane whose gradients are sharded */
    pst_unit_time unit_time;
    pst_fifo fifo;        /* only with cost->fifo */
    uint32_t *compute_at; /* [n_chunk][4][n_micro] instruction index in its rank's list */
    uint32_t *recv_at;    /* [n_channel][n_micro] */
    /* The current rank. */
    uint32_t rank, stage, n_instr, n_pair, n_head, n_flush;
    size_t room_instr, room_pair;
    uint32_t channel; /* next free channel for head and flush; the same on every rank */
    /* rounds whose SENDs are emitted; whose RECVs and REDUCEs are; number of gradient slots */
    uint32_t n_sent, n_added, n_gradient;
    pst_early *early; /* NULL: all gradients are reduced in the flush, or in rounds */
    /* receive buffers: sets used so far; for each buffer, the REDUCE that read it last, PST_NONE */
    uint32_t turn, buffer_read[PST_PIECES_IN_FLIGHT];
    int own_is_exact; /* 1: this rank's gradient of the current piece is not yet rounded */
    pst_instr *instr;
    pst_dep_pair *pair;
    pst_status status; /* first failure; emit and depend do nothing after it */
};

/* Appends an instruction, returns its index (0 after a failure). */
uint32_t pst_builder_emit(pst_job_builder *b, const pst_instr *instr);
/* Adds a dependency: `instr` waits for `on`, an earlier instruction. */
void pst_builder_depend(pst_job_builder *b, uint32_t instr, uint32_t on);
static inline int pst_opcode_computes(uint8_t opcode) {
    return opcode != PST_OP_SEND && opcode != PST_OP_RECV;
}
uint64_t pst_builder_transfer_ns(const pst_job_builder *b, uint64_t bytes);

/* Enumerates the lanes on stage `to` that receive a value from the current rank: the one after
 * `lane`; the first: pst_grid_receiver. */
uint32_t pst_builder_next_receiver(const pst_job_builder *b, uint32_t to, uint32_t lane);

/* An instruction of the flush without chunk or micro-batch; a compute instruction like that; the
 * last compute instruction so far (PST_NONE: none); the rank of this lane with a parameter's use.
 */
pst_instr pst_builder_blank(uint8_t opcode, uint64_t ns);
uint32_t pst_builder_emit_compute(pst_job_builder *b, uint8_t opcode, uint64_t ns);

/* Duration of a REDUCE of this number of elements. */
static inline uint64_t pst_builder_reduce_ns(const pst_job_builder *b, uint64_t elements) {
    return (uint64_t)(b->cost->reduce_ns * (double)elements + 0.5);
}
uint32_t pst_builder_last_compute(const pst_job_builder *b);
uint32_t pst_builder_stage_of_use(const pst_job_builder *b, uint32_t param, uint32_t use);
/* A parameter's first use on a stage; the number of its uses if there is none. */
uint32_t pst_builder_first_use(const pst_job_builder *b, uint32_t param, uint32_t stage);

/* A RECV overwrites an accumulator that was sent to other ranks: it waits for the last SEND of the
 * accumulator and those right before it. If there was no SEND, `lent` is the pass to wait for;
 * PST_NONE: nothing. */
void pst_builder_wait_lent(pst_job_builder *b, uint32_t recv, uint32_t lent);
/* slots.c. Chooses the slots of the current rank from its complete list and adds the dependencies
 * that their reuse needs. */
void pst_builder_assign_slots(pst_job_builder *b);
#endif
