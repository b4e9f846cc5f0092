/* The memory map: every byte that a rank touches during training has an offset that is known before
 * the first step. Regions follow each other in the arena in the order of pst_region; each buffer is
 * 64-byte aligned. The predicted peak, `total`, is one more than the highest byte that is ever
 * touched. Evaluation runs between steps, when training's slots and scratch are empty: its slots,
 * followed by its scratch, overlay them from the start of SLOT on. */
#ifndef PST_PIPELINE_MEMORY_MAP_H
#define PST_PIPELINE_MEMORY_MAP_H
#include "graph/optim.h"
#include "pipeline/compile/job.h"

typedef enum {
    PST_REGION_WEIGHT, /* the rank's parameters, each once, in the graph's dtype */
    /* optimizer state, and fp32 master weights if the graph's dtype is another */
    PST_REGION_STATE,
    PST_REGION_CONTROL, /* norm vectors: fp64 sums by rank */
    PST_REGION_DATA,    /* tokens, targets: [n_micro] of each data tensor used on the rank */
    PST_REGION_OUTPUT,  /* losses (or logits): [n_micro] of each output tensor made on the rank */
    PST_REGION_GRAD, /* one accumulator per use; gradient slots; receive buffers of replica sums */
    PST_REGION_SLOT, /* stashed activations and message buffers: slots of each size class */
    /* values that live within one pass, and kernel scratch; shared by all programs */
    PST_REGION_SCRATCH,
    PST_REGION_COUNT
} pst_region;
const char *pst_region_name(pst_region region);

struct pst_memory_map {
    uint32_t rank, n_rank;
    uint8_t *has_chunk; /* [n_chunk] */
    uint64_t total;     /* predicted peak bytes of the arena */
    uint64_t start[PST_REGION_COUNT], bytes[PST_REGION_COUNT];
    uint64_t *weight; /* [n_param] offset in the arena; UINT64_MAX: not on this rank */
    /* [n_param] for the elements that STEP updates here: fp32 weights (F32: their place within
     * weight) and the optimizer's states; UINT64_MAX: none. */
    uint64_t *master, *state[2];
    /* [n_param] This rank owns elements [own_from, own_to) of a parameter: it reduces them over
     * replicas, counts them in the norm and stores them in checkpoints. It updates [step_from,
     * step_to), and has masters and state for these. */
    uint64_t *own_from, *own_to, *step_from, *step_to;
    uint64_t **grad; /* [n_param][n_use] accumulator of part 0; the others follow, aligned */
    /* [n_param] first element of the accumulator: own_from if the gradient is sharded (zero 2;
     * it then ends at own_to), else 0 */
    uint64_t *grad_from;
    /* [n_param] offset, within a gradient slot, of a micro-batch's gradient; UINT64_MAX: passes
     * add to the accumulator */
    uint64_t *gradient_in_slot;
    /* offset of gradient slot 0, bytes of each; the others follow, aligned */
    uint64_t gradient, gradient_bytes;
    uint32_t n_gradient;
    /* bytes that sharded accumulators save (negative: cost), compared with whole ones */
    int64_t gradient_saved;
    uint32_t parts, part_micros; /* accumulators per use; micro-batches that each one adds up */
    /* the contiguous accumulators that tensor ranks reduce among each other; 0 bytes: there are
     * none */
    uint64_t partial, partial_bytes;
    /* [n_tensor] offset of micro-batch 0; the others follow every pst_tensor_bytes */
    uint64_t *data;
    uint64_t *output; /* [n_tensor] */
    /* For training and for evaluation: [n_class] offset of slot 0 (UINT64_MAX: the chunk is not on
     * this rank), slot k is k * (aligned) class bytes further; and the offset of scratch. */
    uint64_t *class_base, *eval_class_base;
    uint64_t scratch_base, eval_scratch_base;
    const pst_cut *eval_cut; /* borrowed; tells whether a cut is that of evaluation */
    /* offset of the receive buffer for accumulators of a shared parameter (overlays SLOT and
     * SCRATCH, which are idle then); UINT64_MAX: not needed */
    uint64_t shared_grad;
    uint64_t shared_grad_bytes;
    /* [n_param] with post-validation: where STEP saves what it changes: the master, then the
     * states, aligned; overlays like shared_grad */
    uint64_t *undo;
    uint64_t undo_end;
    /* offset of receive buffer 0 of replica sums, bytes of each; the others follow, aligned */
    uint64_t buffer, buffer_bytes;
    uint32_t n_buffer;
    /* Norms, in CONTROL. A rank's message to rank 0 is [the loss of each of its micro-batches, sums
     * of squares of the pieces (share.h) that it owns, by parameter in name order]; the answer is
     * [loss sum, norm, clip factor]. */
    uint32_t n_owned, *owned;       /* parameters of which this rank owns a part, in name order */
    uint64_t norm_own, norm_answer; /* offsets: this rank's message, the answer */
    uint64_t *norm_of_rank; /* rank 0: [n_rank] offsets of the received messages (and of its own) */
    /* [n_rank] number of each in a rank's message: for this rank; on rank 0, for all */
    uint32_t *loss_of_rank, *piece_of_rank;
};

typedef struct {
    const pst_graph *g;
    const pst_cut *cut, *eval_cut;
    const pst_job *job, *eval;
    const pst_slots *slots, *eval_slots;
    const pst_optim_row *optim;
    uint32_t rank;
} pst_memory_map_spec;
/* cut, slots: those of the rank's lane. Data and outputs are sized for the larger n_micro of job
 * and eval. eval_cut, eval, eval_slots: NULL together. optim NULL: no gradients, state or flush
 * (generation). The graph and both cuts are borrowed and outlive the map. */
pst_status pst_memory_map_build(const pst_memory_map_spec *spec, pst_memory_map **map);
void pst_memory_map_close(pst_memory_map *map);
/* A map applied to an arena. cut, slots: those of training or those of evaluation. */
typedef struct {
    const pst_memory_map *map;
    const pst_cut *cut;
    const pst_slots *slots;
    const pst_graph *g;
    uint8_t *arena;
} pst_memory_view;
/* Address of an operand of an operator for one micro-batch; NULL for a NULL operand. */
void *pst_memory_map_address(const pst_memory_view *view, uint32_t chunk,
                             const pst_operand *operand, uint32_t micro);
/* Kernel scratch of an operator; NULL if it needs none. */
void *pst_memory_map_scratch(const pst_memory_map *map, const pst_cut *cut, const pst_step *step,
                             uint8_t *arena);
/* What a SEND or RECV transfers, in a micro-batch or in the flush. */
void *pst_memory_map_message(const pst_memory_view *view, const pst_instr *instr);
/* What a REDUCE adds: n (0: all) elements of *operand to *sum. */
void pst_memory_map_reduce(const pst_memory_view *view, const pst_instr *instr, float **sum,
                           float **operand);
/* Checks that no two live buffers overlap and that each lies within its region. cut and slots:
 * those of training or those of evaluation. EINTERNAL names the buffers. */
pst_status pst_memory_map_check(const pst_memory_map *map, const pst_cut *cut,
                                const pst_slots *slots);
/* A table of the regions with offsets and bytes. */
pst_status pst_memory_map_print(const pst_memory_map *map, const pst_graph *g, FILE *out);
#endif
