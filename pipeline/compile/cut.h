/* A cut: the tape of a graph divided into chunks. Each chunk has a program (list of steps) for each
 * pass, and local values, each with the events between which the value needs memory.
 *
 * A value that crosses chunk boundaries is sent from chunk to neighbouring chunk, also through
 * chunks that only forward the value. Therefore gradients of a tensor with several consumers
 * accumulate in the same order in every layout. */
#ifndef PST_PIPELINE_COMPILE_CUT_H
#define PST_PIPELINE_COMPILE_CUT_H
#include "base/codec.h"
#include "graph/tape.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"

/* The events of one micro-batch on one chunk, in order. With a fused BW, that pass is both EV_B and
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
    uint32_t value; /* index of the value in the tape */
    uint64_t bytes;
    uint8_t birth; /* pst_event that writes the value */
    /* bit mask of the pst_events that read the value; includes `birth` only if that pass also reads
     * it */
    uint8_t uses;
    uint32_t buffer; /* index of the buffer; values that were merged share a buffer */
    /* message channel on which the value is received; PST_NONE: the chunk computes it, or it is
     * input data */
    uint32_t channel_in;
    uint32_t channel_out; /* message channel on which the value is sent; PST_NONE: it is not sent */
} pst_local;

/* The kind of memory of a buffer. */
typedef enum {
    /* one slot per micro-batch in flight: activations kept for the backward pass, and messages */
    PST_PLACE_SLOT,
    PST_PLACE_SCRATCH, /* memory that is only valid within one pass */
    PST_PLACE_DATA,    /* input data from the data set; one copy per micro-batch */
    PST_PLACE_OUTPUT   /* outputs (losses, logits) that the run reads after the step; one copy per
                          micro-batch */
} pst_place;

/* Memory for one or more merged values of a chunk. */
typedef struct {
    uint64_t bytes;
    uint8_t birth;  /* earliest pst_event that writes the buffer */
    uint8_t deaths; /* bit mask of the pst_events that read or write the buffer, `birth` included */
    uint8_t place;  /* pst_place */
    uint8_t pass_local; /* SCRATCH: 1 + opcode of the program that uses the buffer; else 0 */
    /* SCRATCH: range of steps of that program in which the buffer is used */
    uint32_t first_step, last_step;
    uint32_t class_; /* SLOT: index into pst_cut.class_, else PST_NONE */
    /* SLOT: offset in the slot of the class; SCRATCH: offset in the scratch region; bytes */
    uint64_t offset;
} pst_buffer;

/* One launch of an operator. */
typedef struct {
    uint32_t node;
    uint8_t pass;
    uint8_t extra; /* 0, or the kind of a step that is no pass of the node (pst_extra) */
    /* pst_exchange among all ranks of the tensor group; 0: the step is no exchange */
    uint8_t exchange;
    uint8_t again;   /* pst_again: not 0 for a step of F that B's program recomputes */
    uint32_t kernel; /* kernel chosen by pst_chooser */
    uint32_t n_operand;
    /* operand.index: a local of the chunk (VALUE), a parameter, or an accumulator */
    pst_operand operand[PST_MAX_ARG];
    uint64_t scratch;          /* bytes of scratch memory of the kernel */
    uint64_t scratch_offset;   /* offset of this memory in the scratch region */
    uint64_t flops, bytes, ns; /* work, and predicted duration */
} pst_step;

/* The steps of one pass of a chunk. ns: sum of the steps. scratch_bytes: size of the scratch region
 * that the program needs. */
typedef struct {
    uint32_t n_step;
    pst_step *step;
    uint64_t ns, scratch_bytes;
} pst_program;

typedef struct {
    uint32_t n_local, n_buffer;
    /* [n_local] in the order in which the tape writes the values, input data first */
    pst_local *local;
    pst_buffer *buffer;
    pst_program program[4]; /* indexed by opcode (F, B, W, BW); unused programs have 0 steps */
} pst_chunk;

/* A slot class: the SLOT buffers of a chunk with the same birth and deaths. They share one slot per
 * micro-batch in flight. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    /* bit mask of events after birth in which a merged value overwrites an earlier one */
    uint8_t rewrites;
    uint64_t bytes; /* size of one slot */
} pst_cut_class;

/* Which messages between chunks are packed, and how (packed.c). */
typedef struct {
    pst_codec codec;      /* int8, int4 or bf16; PST_CODEC_NONE: nothing is packed */
    const uint8_t *packs; /* [n_chunk - 1] 1: those between chunks k and k + 1 are */
} pst_cut_packing;

/* The cut of a graph into chunks, for all micro-batches and ranks. Read-only once built. */
typedef struct pst_cut pst_cut;
struct pst_cut {
    const pst_graph *graph; /* borrowed; NULL: a synthetic cut without a model */
    pst_tape *tape;         /* owned by the cut */
    /* The same cut of the graph for the step's first micro-batch, which has fewer samples: sizes of
     * values, kernels, work and durations are its own; steps, locals and channels have the same
     * indices, and memory (buffers, classes, scratch offsets) is that of this cut. Owned; NULL: all
     * micro-batches have the same size */
    pst_cut *rest;
    uint32_t n_chunk, n_node;
    uint32_t *chunk_of_node; /* [n_node] chunk of each operator */
    /* of messages between chunks; packs: owned, NULL: none is packed */
    pst_cut_packing packing;
    int split, backward; /* split 1: B and W are separate passes; backward 0: F only */
    pst_chunk *chunk;
    uint32_t n_class;
    pst_cut_class *class_;
    /* message channels [0, n_channel) are for values of micro-batches; higher ones for the flush */
    uint32_t n_channel;
    /* [n_param + 1] the uses of parameter p are use_chunk[use_first[p]] to use_chunk[use_first[p +
     * 1] - 1] */
    uint32_t *use_first;
    uint32_t *use_chunk; /* chunk of each use */
    /* [n_chunk] all parameters whose first use is in the chunk are in [param_from, param_to), which
     * is empty if there are none */
    uint32_t *param_from, *param_to;
};

/* Callbacks that choose kernels and predict durations, the recomputation of each chunk, and which
 * messages between chunks are packed; supplied by prepare, because this component does not know
 * backends. Every member may be NULL; the defaults are kernel 0, scratch 0 and ns = flops + bytes.
 */
typedef struct {
    uint32_t kernel;
    uint64_t scratch; /* bytes of scratch memory */
} pst_chosen;
typedef struct pst_chooser pst_chooser;
struct pst_chooser {
    void *arg;
    /* extra: 0, or the pst_extra of a step that is no pass of the node; not PACK and UNPACK. */
    pst_status (*choose)(void *arg, const pst_graph *g, const pst_node *node, int extra,
                         pst_pass pass, pst_chosen *chosen);
    /* extra: as above, and PST_EXTRA_PACK, PST_EXTRA_UNPACK, of which flops is the number of
     * elements. */
    uint64_t (*ns)(void *arg, const pst_node *node, int extra, pst_pass pass, uint64_t flops,
                   uint64_t bytes);
    const pst_recompute_way *recompute; /* [n_chunk]; NULL: none */
    /* 1: a layer of {full: N} is recomputed whole, as other programs do; 0: only the operators
     * whose values B and W read */
    int whole;
    const pst_cut_packing *packing; /* NULL: nothing is packed */
    const pst_chooser *rest;        /* for the smaller first micro-batch; NULL: this one */
};

typedef struct {
    const pst_graph *graph;
    const uint32_t *chunk_of_node; /* [n_node of the graph] chunk of each node, ascending */
    uint32_t n_chunk;
    int split, backward; /* as in pst_cut */
    /* the graph for the step's first micro-batch (pst_graph_resize); NULL: as the others */
    const pst_graph *rest;
} pst_cut_spec;
/* Cuts a graph and builds the programs. The caller frees *cut with pst_cut_close; the graphs must
 * outlive it. EINPUT: the chunks are not contiguous or empty, or `rest` needs other memory than the
 * graph; ENOMEM. */
pst_status pst_cut_build(const pst_cut_spec *spec, const pst_chooser *chooser, pst_cut **cut);
/* Builds only use_first and use_chunk, without programs and tape. */
pst_status pst_cut_open_uses(const pst_graph *g, const uint32_t *chunk_of_node, uint32_t n_chunk,
                             pst_cut **cut);
/* Builds the tape of the graph as one chunk with this recomputation (LAYERS: of all layers), whole
 * as in pst_chooser. The caller closes *tape. */
pst_status pst_cut_tape(const pst_graph *g, pst_recompute mode, int whole, pst_tape **tape);
/* Builds a synthetic cut without a model, for studies of schedules: each program has one step of
 * the given duration (BW: b + w), and neighbouring chunks exchange one value of `bytes` bytes in
 * each direction. */
pst_status pst_cut_synthetic(uint32_t n_chunk, int split, int backward, pst_pass_ns ns,
                             uint64_t bytes, pst_cut **cut);
/* Sets the durations of the chunks of a synthetic cut. ns: [n_chunk]. */
void pst_cut_set_times(pst_cut *cut, const pst_pass_ns *ns);
void pst_cut_close(pst_cut *cut);
/* Checks the invariants of a cut: each channel has one sender and one receiver of the same value,
 * and every read of a program finds the value of the tape although values share memory. EINTERNAL
 * names the violation. */
pst_status pst_cut_check(const pst_cut *cut);
/* Returns the cut for a micro-batch: `rest` for the step's smaller first one. */
static inline const pst_cut *pst_cut_of(const pst_cut *cut, int rest) {
    return rest ? cut->rest : cut;
}
/* Returns the event in which the program of an opcode runs (for a fused BW that of B). */
static inline pst_event pst_event_of(uint8_t opcode) {
    if (opcode == PST_OP_F) return PST_EV_F;
    return opcode == PST_OP_W ? PST_EV_W : PST_EV_B;
}
#endif
