/* Private to instr.c, slots.c, head.c, rounds.c, flush.c and flush_replicas.c: the state of
 * compiling one rank's list. */
#ifndef PST_PIPELINE_COMPILE_INSTR_PARTS_H
#define PST_PIPELINE_COMPILE_INSTR_PARTS_H
#include "pipeline/compile/instr.h"
#include "pipeline/schedule/pace.h"

typedef struct {
    uint32_t instr, on;
} pst_dep_pair;

/* fifo.c: the messages that a rank receives, in the order of its RECVs; those that stand before
 * action a's predecessor computes are [first[a], first[a + 1]). */
typedef struct {
    uint32_t source, post, chunk, local, micro; /* post: that action a */
} pst_fifo_message;
typedef struct {
    uint32_t n_rank;
    pst_fifo_message **message; /* [n_rank][n_message] */
    uint32_t *n_message, **first;
} pst_fifo;

/* rounds.c, zero 2: the exchanges of weight gradients on one stage, in the order in which every
 * rank there has them. */
typedef struct {
    uint32_t chunk, micro;
    uint32_t sent, added;  /* by the pace of all replicas: when its SENDs stand, and when its RECVs
                              and REDUCEs */
    uint32_t send, n_send; /* of the rank at hand: its SENDs, [send, send + n_send) */
} pst_round;
typedef struct {
    uint32_t n;
    pst_round *round;
    uint32_t *of;       /* [n_chunk][n_micro of the job] the round of a pass */
    uint32_t *occupant; /* [n] of the rank at hand: the round that has a gradient slot */
} pst_rounds;

/* summary.c: a group of parameters that replicas exchange. Their elements; of the replica that has
 * most to add up, or step, its own and the pieces that these are. */
typedef struct {
    uint64_t all, own, pieces;
    uint32_t param;    /* the first of them; PST_NONE: there are none */
    uint32_t segments; /* into which it may be cut */
} pst_summary;

typedef struct {
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
    pst_summary *sharded; /* [n_chunk] of a lane on its own whose gradients are shared out */
    pst_pace pace;
    pst_fifo fifo;        /* with cost->fifo, else 0 */
    uint32_t *compute_at; /* [n_chunk][4][n_micro] instruction index in its rank's list */
    uint32_t *recv_at;    /* [n_channel][n_micro] */
    /* The rank at hand. */
    uint32_t rank, stage, n_instr, cap_instr, n_pair, cap_pair, n_head, n_flush;
    uint32_t channel; /* the next one that head and flush take: the same on every rank */
    uint32_t n_sent, n_added, n_gradient; /* rounds whose SENDs, whose RECVs and REDUCEs are there;
                                             gradient slots */
    uint32_t turn, buffer_read[PST_PIECES_IN_FLIGHT]; /* receive buffers: sets taken so far; the
                                                         REDUCE that has read each last, PST_NONE */
    pst_instr *instr;
    pst_dep_pair *pair;
    pst_status status; /* first failure; emit and depend do nothing after it */
} pst_job_builder;

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

pst_status pst_fifo_open(const pst_job_builder *b, pst_fifo *fifo);
void pst_fifo_close(pst_fifo *fifo);

/* slots.c */
pst_status pst_slots_open(const pst_cut *cut, uint32_t n_micro, pst_slots **slots);
/* Chooses the slots of the rank at hand from its complete list and adds the deps that their reuse
 * needs. */
void pst_builder_assign_slots(pst_job_builder *b);

/* head.c: begins the list at hand with the weights that other replicas have stepped; then, once its
 * passes are there, makes them wait for what they need. */
void pst_builder_head(pst_job_builder *b);
void pst_builder_await_head(pst_job_builder *b);

/* flush.c: appends the flush to the list at hand. */
void pst_builder_flush(pst_job_builder *b);
/* Parts of it. An instruction of the flush that names nothing; a compute one; the last compute
 * instruction so far, PST_NONE; the rank of this lane that has a parameter's use. */
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

/* rounds.c. Of all stages, when job->zero is 2; else *rounds is NULL. EINPUT when there are too
 * many messages. */
pst_status pst_rounds_open(const pst_job_spec *spec, const pst_job *job, pst_rounds **rounds);
void pst_rounds_close(pst_rounds *rounds, uint32_t n_stage);
/* Of the rank at hand: what stands before its action `i`, or behind the last one; and the gradient
 * slot of an action that was just emitted at `at`, which then waits for who had it before. */
void pst_builder_emit_rounds(pst_job_builder *b, uint32_t i);
void pst_builder_take_gradient(pst_job_builder *b, const pst_action *a, uint32_t at);

/* flush_replicas.c: SENDs of a round; its RECVs and REDUCEs. */
void pst_replica_send_round(pst_job_builder *b, pst_round *round);
void pst_replica_add_round(pst_job_builder *b, pst_round *round);

/* flush_replicas.c: what the replicas of a stage exchange. Channels from b->channel on, two, which
 * the caller counts. */
typedef struct {
    uint32_t *at; /* [pieces of all parameters] where this rank's SEND of its gradient stands, or
                     the REDUCE that made the sum; PST_NONE: neither */
} pst_replica_sums;
pst_status pst_replica_sums_open(const pst_job_builder *b, pst_replica_sums *sums);
void pst_replica_sums_close(pst_replica_sums *sums);
/* The sums of all parameters with several uses (shared 1), or of all others; ready: the compute
 * instruction after which this rank's accumulators of them are there (of one use and part: the pass
 * that finishes it, while others may follow). */
void pst_replica_reduce(pst_job_builder *b, pst_replica_sums *sums, int shared, uint32_t ready);
/* zero 0: sums to all who have the parameter. lent: [n_param] this rank's last SEND of its first
 * use's accumulator to another stage, or what stands for it (pst_builder_wait_lent). RECVs of sums
 * stand in [received[0], received[1]), beside SENDs; PST_NONE: there are none. */
void pst_replica_spread_sums(pst_job_builder *b, const pst_replica_sums *sums, const uint32_t *lent,
                             uint32_t received[2]);

/* summary.c: the same, and the head, of a lane on its own. Of the sums: how many numbers are
 * noted. */
pst_status pst_summary_open(pst_job_builder *b); /* fills b->sharded */
void pst_summary_head(pst_job_builder *b);
void pst_summary_send_round(pst_job_builder *b, pst_round *round);
void pst_summary_add_round(pst_job_builder *b, pst_round *round);
uint32_t pst_summary_sums(const pst_job_builder *b);
void pst_summary_reduce(pst_job_builder *b, pst_replica_sums *sums, int shared, uint32_t ready);
void pst_summary_spread_sums(pst_job_builder *b, const pst_replica_sums *sums, const uint32_t *lent,
                             uint32_t received[2]);
#endif
