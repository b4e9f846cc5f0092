/* The memory map: every byte that a rank touches during training, at an offset that is known before
 * the first step. Regions follow each other in the arena in the order of pst_region, each buffer
 * 64-byte aligned; the predicted peak, `total`, is one more than the highest byte that is ever
 * touched.
 *
 * Evaluation runs between steps, when the slots and the scratch of training hold nothing: its own
 * slots and, right behind them, its own scratch lie over them, from the start of SLOT on. */
#ifndef PST_PIPELINE_MEMORY_MAP_H
#define PST_PIPELINE_MEMORY_MAP_H
#include "graph/optim.h"
#include "pipeline/compile/job.h"

typedef enum {
    PST_REGION_WEIGHT, /* parameters of the rank, each once, in the graph's dtype */
    /* optimizer state, and fp32 master weights when the graph's dtype is another */
    PST_REGION_STATE,
    PST_REGION_CONTROL, /* norm vectors: fp64 sums by rank */
    PST_REGION_DATA,    /* tokens, targets: [n_micro] of each data tensor used on the rank */
    PST_REGION_OUTPUT,  /* losses (or logits): [n_micro] of each output tensor made on the rank */
    PST_REGION_GRAD, /* one accumulator per use; gradient slots; receive buffers of replica sums */
    PST_REGION_SLOT, /* stashes and message buffers: classes x slots */
    PST_REGION_SCRATCH, /* pass-local values and kernel scratch, shared by all programs */
    PST_REGION_COUNT
} pst_region;
const char *pst_region_name(pst_region region);

struct pst_memory_map {
    uint32_t rank, n_rank;
    uint8_t *has_chunk; /* [n_chunk] */
    uint64_t total;     /* predicted peak bytes of the arena */
    uint64_t start[PST_REGION_COUNT], bytes[PST_REGION_COUNT];
    uint64_t *weight; /* [n_param] offset in the arena, UINT64_MAX when not on this rank */
    /* [n_param] Of the elements that are stepped here: their fp32 weights (F32: where they lie
     * within weight), and the optimizer's states; UINT64_MAX where there are none. */
    uint64_t *master, *state[2];
    /* [n_param] Elements [own_from, own_to) of a parameter are this rank's: it adds them up over
     * replicas, counts them in the norm and stores them. Those that it steps, and has masters and
     * state of: [step_from, step_to). */
    uint64_t *own_from, *own_to, *step_from, *step_to;
    uint64_t **grad;     /* [n_param][n_use] accumulator of part 0; the next is (aligned) on */
    uint64_t *grad_from; /* [n_param] the first element that it has: own_from where the gradient is
                            shared out (zero 2), and it ends at own_to; else 0 */
    uint64_t *fresh;     /* [n_param] where its gradient of a micro-batch lies in a gradient slot;
                            UINT64_MAX: passes add to the accumulator */
    uint64_t gradient, gradient_bytes; /* offset of gradient slot 0, of each its bytes; the next is
                                          that (aligned) on */
    uint32_t n_gradient;
    int64_t gradient_saved; /* bytes that whole accumulators would take more (negative: less) */
    uint32_t parts, part_micros;     /* accumulators per use; micro-batches that each is for */
    uint64_t partial, partial_bytes; /* where the accumulators that the tensor group adds up lie
                                        together; 0 bytes: there are none */
    uint64_t *data;   /* [n_tensor] offset of micro-batch 0; the next is pst_tensor_bytes on */
    uint64_t *output; /* [n_tensor] */
    /* Of the training cut and of the evaluation cut: [n_class] offset of slot 0 (UINT64_MAX when
       the chunk is not on this rank), slot k is k * class bytes (aligned) on; and where scratch
       offsets count from. */
    uint64_t *class_base, *eval_class_base;
    uint64_t scratch_base, eval_scratch_base;
    const pst_cut *eval_cut; /* borrowed; tells which of the two a cut is */
    uint64_t join; /* offset of the receive buffer of shared accumulators (overlays SLOT and
                      SCRATCH, which are idle then); UINT64_MAX when not needed */
    uint64_t join_bytes;
    /* [n_param] with post-validation, where STEP keeps what it changes: master, then states, one
     * (aligned) behind the other; overlays as join does */
    uint64_t *undo;
    uint64_t undo_end;
    uint64_t buffer, buffer_bytes; /* offset of receive buffer 0 of replica sums, of each its bytes;
                                      the next is that (aligned) on */
    uint32_t n_buffer;
    /* Norms, in CONTROL. The message of a rank to rank 0 is [loss of each of its micro-batches,
     * sums of squares of the pieces (share.h) of what it owns, by parameter in name order]; the
     * answer [loss sum, norm, clip factor]. */
    uint32_t n_owned, *owned;       /* parameters of which a part is owned, in name order */
    uint64_t norm_own, norm_answer; /* offsets: own message, answer */
    uint64_t *norm_of_rank; /* rank 0: [n_rank] offsets of received messages (own included) */
    uint32_t *loss_of_rank, *piece_of_rank; /* [n_rank] how many of each the message of a rank has:
                                               of this one, on rank 0 of all */
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
/* A map over the arena at hand. cut, slots: those of training or those of evaluation. */
typedef struct {
    const pst_memory_map *map;
    const pst_cut *cut;
    const pst_slots *slots;
    const pst_graph *g;
    uint8_t *arena;
} pst_memory_view;
/* Address of an operand of a step for one micro-batch; NULL for a NULL operand. */
void *pst_memory_map_address(const pst_memory_view *view, uint32_t chunk,
                             const pst_operand *operand, uint32_t micro);
/* Kernel scratch of a step; NULL when it needs none. */
void *pst_memory_map_scratch(const pst_memory_map *map, const pst_cut *cut, const pst_step *step,
                             uint8_t *arena);
/* What a SEND or RECV moves, of micro-batches and of the flush alike. */
void *pst_memory_map_message(const pst_memory_view *view, const pst_instr *instr);
/* What a REDUCE adds: n (0: all) elements of *operand to *sum. */
void pst_memory_map_reduce(const pst_memory_view *view, const pst_instr *instr, float **sum,
                           float **operand);
/* No two buffers that are alive together overlap, and nothing lies behind its region. cut and
 * slots: those of training or those of evaluation. EINTERNAL says what overlaps. */
pst_status pst_memory_map_check(const pst_memory_map *map, const pst_cut *cut,
                                const pst_slots *slots);
/* A table per region with offsets and bytes. */
pst_status pst_memory_map_print(const pst_memory_map *map, const pst_graph *g, FILE *out);
#endif
