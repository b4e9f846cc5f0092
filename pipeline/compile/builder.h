/* The state of compiling one rank's list, and appending to it. */
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

struct pst_job_builder {
    const pst_job_spec *spec;
    const pst_instr_cost *cost;
    pst_job *job;
    pst_rounds *rounds; /* [grid.pipeline]; NULL: gradients are not shared out */
    /* The lane at hand. */
    uint32_t lane, replica, n_micro, n_piece; /* n_piece: of all parameters */
    const pst_schedule *schedule;
    const pst_cut *cut;
    const pst_share *share;
    pst_slots *slots;
    pst_summary *shared_out; /* [n_chunk] of a lane on its own whose gradients are shared out */
    pst_unit_time pace;
    pst_fifo fifo;        /* with cost->fifo, else 0 */
    uint32_t *compute_at; /* [n_chunk][4][n_micro] instruction index in its rank's list */
    uint32_t *recv_at;    /* [n_channel][n_micro] */
    /* The rank at hand. */
    uint32_t rank, stage, n_instr, n_pair, n_head, n_flush;
    size_t room_instr, room_pair;
    uint32_t channel; /* the next one that head and flush take: the same on every rank */
    /* rounds whose SENDs, whose RECVs and REDUCEs are there; gradient slots */
    uint32_t n_sent, n_added, n_gradient;
    uint32_t turn, buffer_read[PST_PIECES_IN_FLIGHT]; /* receive buffers: sets taken so far; the
                                                         REDUCE that has read each last, PST_NONE */
    int own_is_exact; /* of the piece at hand: this rank's gradient has yet to be rounded */
    pst_instr *instr;
    pst_dep_pair *pair;
    pst_status status; /* first failure; emit and depend do nothing after it */
};

/* Appends an instruction, returns its index (0 after a failure). */
uint32_t pst_builder_emit(pst_job_builder *b, const pst_instr *instr);
/* `instr` waits for `on`, an earlier one. */
void pst_builder_depend(pst_job_builder *b, uint32_t instr, uint32_t on);
static inline int pst_opcode_computes(uint8_t opcode) {
    return opcode != PST_OP_SEND && opcode != PST_OP_RECV;
}
uint64_t pst_builder_transfer_ns(const pst_job_builder *b, uint64_t bytes);

/* Of the rank at hand, the lane after `lane` of those that have a value on stage `to` from it; the
 * first: pst_grid_receiver. */
uint32_t pst_builder_next_receiver(const pst_job_builder *b, uint32_t to, uint32_t lane);

/* An instruction of the flush that names nothing; a compute one; the last compute instruction so
 * far, PST_NONE; the rank of this lane that has a parameter's use. */
pst_instr pst_builder_blank(uint8_t opcode, uint64_t ns);
uint32_t pst_builder_emit_compute(pst_job_builder *b, uint8_t opcode, uint64_t ns);

/* Of a REDUCE that adds so many elements. */
static inline uint64_t pst_builder_reduce_ns(const pst_job_builder *b, uint64_t elements) {
    return (uint64_t)(b->cost->reduce_ns * (double)elements + 0.5);
}
uint32_t pst_builder_last_compute(const pst_job_builder *b);
uint32_t pst_builder_stage_of_use(const pst_job_builder *b, uint32_t param, uint32_t use);
/* The first use of a parameter on a stage; the number of its uses when there is none. */
uint32_t pst_builder_first_use(const pst_job_builder *b, uint32_t param, uint32_t stage);

/* A RECV takes the memory of an accumulator that was lent: it waits for the last SEND of it, and
 * those right before it to other ranks; where none had it, for the pass that `lent` then is;
 * PST_NONE: for nothing. */
void pst_builder_wait_lent(pst_job_builder *b, uint32_t recv, uint32_t lent);
/* slots.c. Chooses the slots of the rank at hand from its complete list and adds the deps that
 * their reuse needs. */
void pst_builder_assign_slots(pst_job_builder *b);
#endif
