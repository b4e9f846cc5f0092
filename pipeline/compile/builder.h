/* The state of the compiler while it builds the instruction list of one rank, and functions that
 * append to the list. */
#ifndef PST_PIPELINE_COMPILE_BUILDER_H
#define PST_PIPELINE_COMPILE_BUILDER_H
#include "pipeline/compile/fifo.h"
#include "pipeline/compile/job.h"
#include "pipeline/schedule/unit_time.h"

/* Instruction `instr` depends on instruction `on`. */
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
    /* The current lane. replica: or server; serves: 1: it is one, which has no micro-batches, and
     * the schedule of replica 0 without its passes. member: among the owners of its island
     * (pst_job_member). n_piece: pieces of all parameters. */
    uint32_t lane, replica, member, n_micro, n_piece;
    int serves;
    const pst_schedule *schedule;
    const pst_cut *cut;
    const pst_share *share;
    pst_slots *slots;
    /* [n_chunk] only for a job with a single lane and sharded gradients; else NULL */
    pst_summary *sharded;
    pst_unit_time unit_time;
    pst_fifo fifo;        /* used only if cost->fifo is 1 */
    uint32_t *compute_at; /* [n_chunk][4][n_micro] index of each pass in the list of the rank */
    uint32_t *recv_at;    /* [n_channel][n_micro] index of each RECV in the list of the rank */
    /* The current rank. */
    uint32_t rank, stage, n_instr, n_pair, n_head, n_flush;
    size_t room_instr, room_pair;
    uint32_t channel; /* next free channel for messages of head and flush; equal on all ranks */
    /* number of rounds with emitted SENDs; number of rounds with emitted RECVs and REDUCEs; number
     * of gradient slots */
    uint32_t n_sent, n_added, n_gradient;
    pst_early *early; /* gradients that are reduced before the flush; NULL: none, or in rounds */
    /* receive buffers: number of sets used so far; for each buffer, the last REDUCE that reads it,
     * or PST_NONE */
    uint32_t turn, buffer_read[PST_MESSAGES_IN_FLIGHT];
    uint32_t relay_turn, relay_read[PST_MESSAGES_IN_FLIGHT]; /* the same of a relay */
    int beside;       /* 1: what is emitted is for the HEAD and SIDE queues */
    int stepped;      /* 1: the list has a STEP of a piece */
    int own_is_exact; /* 1: this rank's gradient of the current piece is not yet rounded to bf16 */
    pst_instr *instr;
    pst_dep_pair *pair;
    pst_status status; /* first failure; emit and depend do nothing after it */
};

/* Appends an instruction and returns its index in the list (0 after a failure). */
uint32_t pst_builder_emit(pst_job_builder *b, const pst_instr *instr);
/* Adds a dependency: instruction `instr` waits for the earlier instruction `on`. */
void pst_builder_depend(pst_job_builder *b, uint32_t instr, uint32_t on);
static inline int pst_opcode_computes(uint8_t opcode) {
    return opcode != PST_OP_SEND && opcode != PST_OP_RECV;
}
/* Returns the duration of a message in ns. */
uint64_t pst_builder_transfer_ns(const pst_job_builder *b, uint64_t bytes);

/* Enumerates the lanes on stage `to` that receive a value from the current rank: returns the lane
 * after `lane`. pst_grid_receiver returns the first one. */
uint32_t pst_builder_next_receiver(const pst_job_builder *b, uint32_t to, uint32_t lane);

/* pst_builder_blank returns an instruction of the flush without chunk and micro-batch;
 * pst_builder_emit_compute appends such a compute instruction and returns its index. */
pst_instr pst_builder_blank(uint8_t opcode, uint64_t ns);
uint32_t pst_builder_emit_compute(pst_job_builder *b, uint8_t opcode, uint64_t ns);

/* Returns the duration of a REDUCE of `elements` elements in ns. */
static inline uint64_t pst_builder_reduce_ns(const pst_job_builder *b, uint64_t elements) {
    return (uint64_t)(b->cost->reduce_ns * (double)elements + 0.5);
}
/* The same of a PACK. */
static inline uint64_t pst_builder_pack_ns(const pst_job_builder *b, uint64_t elements) {
    return (uint64_t)(b->cost->pack_ns * (double)elements + 0.5);
}
/* Returns the last compute instruction so far; PST_NONE: there is none. */
uint32_t pst_builder_last_compute(const pst_job_builder *b);
/* Returns the stage of a parameter's use. */
uint32_t pst_builder_stage_of_use(const pst_job_builder *b, uint32_t param, uint32_t use);
/* Returns the first use of a parameter on a stage; the number of uses of the parameter if there is
 * none. */
uint32_t pst_builder_first_use(const pst_job_builder *b, uint32_t param, uint32_t stage);
/* Returns 1 if a stage uses a parameter that is trained. */
int pst_builder_holds(const pst_job_builder *b, uint32_t param, uint32_t stage);

/* For a RECV that overwrites an accumulator: makes it wait for the SENDs of this accumulator to
 * other ranks, the last of which is `lent`. If there was no SEND, `lent` is the pass to wait for;
 * PST_NONE: nothing to wait for. */
void pst_builder_wait_lent(pst_job_builder *b, uint32_t recv, uint32_t lent);
/* slots.c: chooses memory slots for the complete list of the current rank and adds the dependencies
 * that the reuse of slots needs. */
void pst_builder_assign_slots(pst_job_builder *b);
#endif
