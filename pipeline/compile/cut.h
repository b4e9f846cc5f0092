/* Programs: the tape of a graph cut at stage boundaries. Each chunk has a list of steps for each
 * pass, and local values with the events between which they need memory.
 *
 * A value that crosses a boundary is sent from chunk to neighbouring chunk, also through chunks
 * that only forward it. So gradients of a tensor with several consumers accumulate in the same
 * order in every layout. */
#ifndef PST_PIPELINE_COMPILE_CUT_H
#define PST_PIPELINE_COMPILE_CUT_H
#include "graph/tape.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"

/* The events of one (chunk, micro-batch), in order. With fused BW, B and W are one event: EV_B =
 * EV_W. */
typedef enum {
    PST_EV_RECV_F,
    PST_EV_F,
    PST_EV_SEND_F,
    PST_EV_RECV_B,
    PST_EV_B,
    PST_EV_SEND_B,
    PST_EV_W,
    PST_EV_COUNT
} pst_event;

/* A value within one chunk. */
typedef struct {
    uint32_t value; /* value of the tape */
    uint64_t bytes;
    uint8_t birth;   /* pst_event */
    uint8_t uses;    /* bit mask of pst_event; birth only if the value is also read in that pass */
    uint32_t buffer; /* the value's memory; merged values share a buffer */
    /* message channel on which it is received, PST_NONE: computed here (or data) */
    uint32_t channel_in;
    uint32_t channel_out; /* message channel on which it is sent, PST_NONE */
} pst_local;

/* Where a buffer is. */
typedef enum {
    PST_PLACE_SLOT,    /* one slot per micro-batch in flight: stashes and messages */
    PST_PLACE_SCRATCH, /* within one pass */
    PST_PLACE_DATA,    /* filled from the data set; a copy per micro-batch */
    PST_PLACE_OUTPUT   /* read by the run after the step; a copy per micro-batch */
} pst_place;

/* Memory for one or more merged values of a chunk. */
typedef struct {
    uint64_t bytes;
    uint8_t birth;                  /* earliest pst_event */
    uint8_t deaths;                 /* mask of the pst_events that read or write it, with birth */
    uint8_t place;                  /* pst_place */
    uint8_t pass_local;             /* SCRATCH: 1 + opcode of its program, else 0 */
    uint32_t first_step, last_step; /* steps of the program that pass_local names, if any */
    uint32_t class_;                /* SLOT: index into pst_cut.class_, else PST_NONE */
    uint64_t offset; /* SLOT: within the slot of its class; SCRATCH: within the scratch region */
} pst_buffer;

/* One launch of an operator. operand: index of a local (VALUE), a parameter or an accumulator. */
typedef struct {
    uint32_t node;
    uint8_t pass, is_sum;
    uint8_t exchange; /* not 0: a pst_exchange, in which all ranks of the tensor group take part */
    uint8_t again;    /* pst_again: F's, in B's program */
    uint32_t kernel;  /* chosen by pst_chooser */
    uint32_t n_operand;
    pst_operand operand[PST_MAX_ARG]; /* VALUE: index is a local of the chunk */
    uint64_t scratch;                 /* bytes of kernel scratch */
    uint64_t scratch_offset;          /* within SCRATCH */
    uint64_t flops, bytes, ns;        /* cost and predicted duration */
} pst_step;

/* scratch_bytes: end of the highest scratch buffer or kernel scratch of the program. */
typedef struct {
    uint32_t n_step;
    pst_step *step;
    uint64_t ns, scratch_bytes;
} pst_program;

typedef struct {
    uint32_t n_local, n_buffer;
    pst_local *local; /* in the order in which the tape writes them, data first */
    pst_buffer *buffer;
    pst_program program[4]; /* indexed by opcode F, B, W, BW; unused programs have 0 steps */
} pst_chunk;

/* The SLOT buffers of a chunk with the same birth and deaths: they share one slot per micro-batch
 * in flight. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    uint8_t rewrites; /* events after birth in which a merged value overwrites an earlier one */
    uint64_t bytes;   /* size of one slot */
} pst_cut_class;

/* What does not depend on micro-batch or rank. Immutable once built. */
typedef struct {
    const pst_graph *graph; /* borrowed; NULL: synthetic */
    pst_tape *tape;         /* owned */
    uint32_t n_chunk, n_node;
    uint32_t *chunk_of_node; /* [n_node] */
    int split, backward;
    pst_chunk *chunk;
    uint32_t n_class;
    pst_cut_class *class_;
    uint32_t n_channel; /* channels [0, n_channel) carry values; higher ones are for the flush */
    /* [n_param + 1]: the uses of parameter p are [use_first[p], use_first[p + 1]) of */
    uint32_t *use_first;
    uint32_t *use_chunk; /* the chunk of each use of a parameter */
} pst_cut;

/* Chooses kernels, predicts their time, and says what is recomputed; supplied by prepare (programs
 * know no backend). All members may be NULL: then kernel = 0, scratch = 0, ns = flops + bytes. */
enum { PST_EXTRA_SUM = 1, PST_EXTRA_RESTORE = 2 };
typedef struct {
    uint32_t kernel;
    uint64_t scratch; /* bytes */
} pst_chosen;
typedef struct {
    void *arg;
    /* extra: 0, or the kind of a step beside the node's own passes. */
    pst_status (*choose)(void *arg, const pst_graph *g, const pst_node *node, int extra,
                         pst_pass pass, pst_chosen *chosen);
    uint64_t (*ns)(void *arg, const pst_node *node, int extra, pst_pass pass, uint64_t flops,
                   uint64_t bytes);
    const uint8_t *recompute; /* [n_chunk] pst_recompute; NULL: none */
} pst_chooser;

typedef struct {
    const pst_graph *graph;
    const uint32_t *chunk_of_node; /* [n_node of the graph] ascending */
    uint32_t n_chunk;
    int split, backward; /* as in pst_cut */
} pst_cut_spec;
pst_status pst_cut_build(const pst_cut_spec *spec, const pst_chooser *chooser, pst_cut **cut);
/* Only the places where parameters are used (use_first, use_chunk): no programs, no tape. */
pst_status pst_cut_open_uses(const pst_graph *g, const uint32_t *chunk_of_node, uint32_t n_chunk,
                             pst_cut **cut);
/* The tape of a cut into one chunk with this recomputation, without the cut. */
pst_status pst_cut_tape(const pst_graph *g, pst_recompute mode, pst_tape **tape);
/* Without a model, for studies of schedules: each program is one step of the given duration (BW: b
 * + w); neighbouring chunks exchange one value of `bytes` in each direction. */
pst_status pst_cut_synthetic(uint32_t n_chunk, int split, int backward, pst_pass_ns ns,
                             uint64_t bytes, pst_cut **cut);
/* Sets other durations for the chunks of a synthetic cut; ns: [n_chunk]. */
void pst_cut_set_times(pst_cut *cut, const pst_pass_ns *ns);
void pst_cut_close(pst_cut *cut);
/* Checks all invariants: both sides of each channel agree, and every read of every program finds
 * the value that the tape names, whatever shares its memory. EINTERNAL names the violation. */
pst_status pst_cut_check(const pst_cut *cut);
/* The event in which a program runs (fused BW counts as B). */
static inline pst_event pst_event_of(uint8_t opcode) {
    if (opcode == PST_OP_F) return PST_EV_F;
    return opcode == PST_OP_W ? PST_EV_W : PST_EV_B;
}
#endif
