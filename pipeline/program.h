/* Programs: the tape of a graph cut at stage boundaries. For each chunk and pass a straight-line list of steps, and
 * for each chunk the local values with the moments at which their memory is born and may die.
 *
 * A value that crosses a boundary goes from chunk to neighbouring chunk, also through chunks that only pass it on; so
 * gradients of a tensor with several consumers accumulate in the same order in every layout. */
#ifndef PST_PIPELINE_PROGRAM_H
#define PST_PIPELINE_PROGRAM_H
#include "graph/diff.h"
#include "pipeline/plan.h"
#include "pipeline/schedule.h"

/* The moments in the life of one (chunk, micro-batch), in order. With fused BW, B and W are one moment: EV_B = EV_W. */
typedef enum { PST_EV_RECV_F, PST_EV_F, PST_EV_SEND_F, PST_EV_RECV_B, PST_EV_B, PST_EV_SEND_B, PST_EV_W, PST_EV_COUNT } pst_event;

/* A value as one chunk sees it. */
typedef struct {
    uint32_t value;             /* tape value */
    uint64_t bytes;
    uint8_t birth;              /* pst_event */
    uint8_t uses;               /* bit mask of pst_event, birth excluded unless it is also read in that pass */
    uint32_t buffer;            /* memory it lives in; merged values share one */
    uint32_t channel_in;        /* message channel it arrives on, PST_NONE if made here (or data) */
    uint32_t channel_out;       /* message channel it leaves on, PST_NONE */
} pst_local;

/* Memory for one or more merged values of a chunk. */
typedef struct {
    uint64_t bytes;
    uint8_t birth;              /* earliest pst_event */
    uint8_t deaths;             /* mask of the pst_events that read or write it, birth included */
    uint32_t pass_local;        /* 1 + opcode when it lives within one program only, else 0 */
    uint32_t first_step, last_step; /* of that program, when pass_local */
    uint32_t class_, offset_hi; /* set by layout.h: class index, or PST_NONE for pass-local and data/output */
    uint64_t offset;            /* within the class's slot, or within SCRATCH */
} pst_buffer;

/* One launch. operand: index into locals (VALUE), parameter, or accumulator. */
typedef struct {
    uint32_t node; uint8_t pass, is_sum;
    uint32_t kernel;            /* index into the kernel list given to pst_program_build */
    uint32_t n_operand;
    pst_operand operand[PST_MAX_ARG]; /* VALUE operands: index is a local of the chunk */
    uint64_t scratch;           /* bytes of kernel scratch */
    uint64_t scratch_offset;    /* set by layout.h, within SCRATCH */
    uint64_t flops, bytes, ns;  /* cost and predicted duration */
} pst_step;

typedef struct { uint32_t n_step; pst_step *step; uint64_t ns; } pst_program;

typedef struct {
    uint32_t n_local, n_buffer;
    pst_local *local;
    pst_buffer *buffer;
    pst_program program[4];     /* by opcode F, B, W, BW; unused ones have 0 steps */
} pst_chunk;

/* Everything about a cut model that does not depend on micro-batch or rank. */
typedef struct {
    const pst_graph *graph;     /* borrowed */
    pst_tape *tape;             /* owned */
    uint32_t n_chunk;
    int split, backward;
    pst_chunk *chunk;
} pst_cut;

/* How to choose kernels and predict their time; supplied by the engine (programs know no backend). All may be NULL:
 * then kernel = 0, scratch = 0, ns = (flops + bytes) as a unit cost. */
typedef struct {
    void *arg;
    pst_status (*choose)(void *arg, const pst_graph *g, const pst_node *node, int is_sum, pst_pass pass,
                         uint32_t *kernel, uint64_t *scratch);
    uint64_t (*ns)(void *arg, const pst_node *node, int is_sum, pst_pass pass, uint64_t flops, uint64_t bytes);
} pst_chooser;

pst_status pst_cut_build(const pst_graph *g, const uint32_t *chunk_of_node, uint32_t n_chunk, int split, int backward,
                         const pst_chooser *chooser, pst_cut **cut);
/* Without a model, for studies of schedules: each program is one step of f, b, w ns (BW: b + w); neighbouring chunks
 * exchange one value of `bytes` each way. */
pst_status pst_cut_synthetic(uint32_t n_chunk, int split, int backward, uint64_t f, uint64_t b, uint64_t w,
                             uint64_t bytes, pst_cut **cut);
void pst_cut_close(pst_cut *cut);
pst_status pst_cut_check(const pst_cut *cut);
#endif
