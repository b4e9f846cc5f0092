/* Programs: the tape of a graph cut at stage boundaries. For each chunk and pass a straight-line
 * list of steps, and for each chunk the local values with the moments at which their memory is born
 * and may die.
 *
 * A value that crosses a boundary goes from chunk to neighbouring chunk, also through chunks that
 * only pass it on; so gradients of a tensor with several consumers accumulate in the same order in
 * every layout. */
#ifndef PST_PIPELINE_COMPILE_CUT_H
#define PST_PIPELINE_COMPILE_CUT_H
#include "graph/tape.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"

/* The moments in the life of one (chunk, micro-batch), in order. With fused BW, B and W are one
 * moment: EV_B = EV_W. */
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

/* A value as one chunk sees it. */
typedef struct {
    uint32_t value; /* tape value */
    uint64_t bytes;
    uint8_t birth;   /* pst_event */
    uint8_t uses;    /* bit mask of pst_event, birth excluded unless it is also read in that pass */
    uint32_t buffer; /* memory it lives in; merged values share one */
    uint32_t channel_in;  /* message channel it arrives on, PST_NONE if made here (or data) */
    uint32_t channel_out; /* message channel it leaves on, PST_NONE */
} pst_local;

/* Where a buffer lives. */
typedef enum {
    PST_PLACE_SLOT,    /* a slot per micro-batch in flight: stashes and messages */
    PST_PLACE_SCRATCH, /* within one run of one program */
    PST_PLACE_DATA,    /* filled from the data set, one copy per micro-batch */
    PST_PLACE_OUTPUT   /* read by the run after the step, one copy per micro-batch */
} pst_place;

/* Memory for one or more merged values of a chunk. */
typedef struct {
    uint64_t bytes;
    uint8_t birth;      /* earliest pst_event */
    uint8_t deaths;     /* mask of the pst_events that read or write it, birth included */
    uint8_t place;      /* pst_place */
    uint8_t pass_local; /* SCRATCH: 1 + opcode of its program, else 0 */
    uint32_t first_step, last_step; /* of that program, when pass_local */
    uint32_t class_;                /* SLOT: index into pst_cut.class_, else PST_NONE */
    uint64_t offset;                /* SLOT: within its class's slot; SCRATCH: within SCRATCH */
} pst_buffer;

/* One launch. operand: index into locals (VALUE), parameter, or accumulator. */
typedef struct {
    uint32_t node;
    uint8_t pass, is_sum;
    uint8_t exchange; /* not 0: pst_exchange; the ranks of the tensor group do it together */
    uint8_t again;    /* pst_again: F's, in B's program */
    uint32_t kernel;  /* as the chooser says */
    uint32_t n_operand;
    pst_operand operand[PST_MAX_ARG]; /* VALUE operands: index is a local of the chunk */
    uint64_t scratch;                 /* bytes of kernel scratch */
    uint64_t scratch_offset;          /* within SCRATCH */
    uint64_t flops, bytes, ns;        /* cost and predicted duration */
} pst_step;

/* scratch_bytes: end of the highest pass-local buffer or kernel scratch that the program
 * touches. */
typedef struct {
    uint32_t n_step;
    pst_step *step;
    uint64_t ns, scratch_bytes;
} pst_program;

typedef struct {
    uint32_t n_local, n_buffer;
    pst_local *local; /* in the order in which the tape writes them, data first */
    pst_buffer *buffer;
    pst_program program[4]; /* by opcode F, B, W, BW; unused ones have 0 steps */
} pst_chunk;

/* The SLOT buffers of a chunk with equal birth and deaths: they share one slot per micro-batch in
 * flight. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    uint8_t rewrites; /* events after birth that write a merged value over an earlier one */
    uint64_t bytes;   /* of one slot */
} pst_cut_class;

/* Everything about a cut model that does not depend on micro-batch or rank. Immutable once
 * built. */
typedef struct {
    const pst_graph *graph; /* borrowed; NULL when synthetic */
    pst_tape *tape;         /* owned */
    uint32_t n_chunk, n_node;
    uint32_t *chunk_of_node; /* [n_node] */
    int split, backward;
    pst_chunk *chunk;
    uint32_t n_class;
    pst_cut_class *class_;
    uint32_t n_channel; /* channels [0, n_channel) carry values; the flush takes those above */
    /* [n_param + 1]: uses of parameter p are [use_first[p], use_first[p + 1]) of */
    uint32_t *use_first;
    uint32_t *use_chunk; /* the chunk in which each use of a parameter lives */
} pst_cut;

/* How to choose kernels and predict their time, and what B computes again; supplied by prepare
 * (programs know no backend). All may be NULL: then kernel = 0, scratch = 0, ns = (flops + bytes)
 * as a unit cost. */
enum { PST_EXTRA_SUM = 1, PST_EXTRA_RESTORE = 2 };
typedef struct {
    uint32_t kernel;
    uint64_t scratch; /* bytes */
} pst_chosen;
typedef struct {
    void *arg;
    /* extra: 0, or what the step is beside the node's own passes. */
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
/* Only where parameters are used (use_first, use_chunk): no programs, no tape. */
pst_status pst_cut_open_uses(const pst_graph *g, const uint32_t *chunk_of_node, uint32_t n_chunk,
                             pst_cut **cut);
/* The tape that a cut into one chunk has which recomputes like this, without a cut. */
pst_status pst_cut_tape(const pst_graph *g, pst_recompute mode, pst_tape **tape);
/* Without a model, for studies of schedules: each program is one step of so many ns (BW: b + w);
 * neighbouring chunks exchange one value of `bytes` each way. */
pst_status pst_cut_synthetic(uint32_t n_chunk, int split, int backward, pst_pass_ns ns,
                             uint64_t bytes, pst_cut **cut);
/* Other durations for the chunks of a synthetic cut: ns: [n_chunk]. */
void pst_cut_set_times(pst_cut *cut, const pst_pass_ns *ns);
void pst_cut_close(pst_cut *cut);
/* Every invariant: channels agree on both sides, and every read of every program finds the value
 * that the tape says, whatever shares its memory. EINTERNAL says which does not. */
pst_status pst_cut_check(const pst_cut *cut);
/* The moment at which a program runs (fused BW counts as B). */
static inline pst_event pst_event_of(uint8_t opcode) {
    if (opcode == PST_OP_F) return PST_EV_F;
    return opcode == PST_OP_W ? PST_EV_W : PST_EV_B;
}
#endif
