/* The memory map: the offsets of all buffers in the arena of a rank. All memory that a rank uses in
 * training is planned before the first step. Regions follow each other in the order of pst_region;
 * each buffer is aligned to 64 bytes. `total` is the size of the arena. Evaluation runs between
 * steps, when the slots and scratch memory of training are empty: slots and scratch memory of
 * evaluation share this memory, from the start of region SLOT on. */
#ifndef PST_PIPELINE_MEMORY_MAP_H
#define PST_PIPELINE_MEMORY_MAP_H
#include "graph/optim.h"
#include "pipeline/compile/job.h"

typedef enum {
    PST_REGION_WEIGHT, /* the parameters of the rank, each once, in the dtype of the graph */
    /* optimizer states, and fp32 master weights if the dtype of the graph is not fp32 */
    PST_REGION_STATE,
    PST_REGION_RESIDUAL, /* what codecs have left out of this rank's gradients */
    /* elastic runs: the other side of the regions above: STEP reads one side and writes the other
     */
    PST_REGION_TWIN,
    PST_REGION_OUTER,   /* islands: old weights and outer momentum that this rank owns; kept weights
                         */
    PST_REGION_CONTROL, /* norm messages: fp64 partial sums per rank */
    /* input data (tokens, targets): n_micro copies of each data tensor that the rank uses */
    PST_REGION_DATA,
    /* losses or logits: n_micro copies of each output tensor that the rank computes */
    PST_REGION_OUTPUT,
    /* gradient accumulators, gradient slots, and receive buffers of reductions over replicas */
    PST_REGION_GRAD,
    PST_REGION_SLOT, /* kept activations and message buffers: the slots of each slot class */
    /* values that are only needed within one pass, and scratch memory of kernels; shared by all
     * passes */
    PST_REGION_SCRATCH,
    PST_REGION_COUNT
} pst_region;
/* Returns the name of a region for messages, such as "weights". */
const char *pst_region_name(pst_region region);

struct pst_memory_map {
    uint32_t rank, n_rank;
    uint8_t *has_chunk; /* [n_chunk] 1: the chunk is on this rank */
    uint64_t total;     /* bytes of the arena */
    uint64_t start[PST_REGION_COUNT], bytes[PST_REGION_COUNT]; /* offset and size of each region */
    /* [n_param] offset of each weight; UINT64_MAX: not on this rank. On a server only elements
     * [own_from, own_to) */
    uint64_t *weight;
    int serves; /* 1: the rank is a server */
    /* Elastic runs: bytes [twin_from, twin_to) of the arena, the trained weights, optimizer states
     * and residuals, exist a second time from `twin` on (side 1). All three are multiples of
     * PST_MEMORY_PAGE. 0: they exist once. */
    uint64_t twin_from, twin_to, twin;
    /* [n_param] offsets of the fp32 master weights (for dtype F32: inside `weight`, unless that is
     * a copy) and of the optimizer states, for the elements that STEP updates on this rank;
     * UINT64_MAX: none. A frozen parameter has only, for dtype F32, a master: the whole weight. */
    uint64_t *master, *state[2];
    uint32_t state_size; /* bytes of an element of an optimizer state */
    /* [n_param] This rank owns elements [own_from, own_to) of a parameter: it reduces their
     * gradients over replicas and writes them to checkpoints. It updates
     * elements [step_from, step_to), and has master weights and states for these. */
    uint64_t *own_from, *own_to, *step_from, *step_to;
    /* [n_param] the elements whose squares this rank sums for the norm: those that it owns or, with
     * asynchronous updates, all of a parameter whose first use is here, and none on a server */
    uint64_t *norm_from, *norm_to;
    /* [n_param][n_use] offset of accumulator 0 of each use; the other accumulators follow,
     * aligned */
    uint64_t **grad;
    /* number of sets of accumulators, and bytes from one set to the next: with delayed updates
     * (job.staleness), each step up to the oldest that is not applied yet has its own; else 1 */
    uint32_t n_set;
    uint64_t set_bytes;
    /* [n_param] first element in the accumulator: 0; for a sharded gradient (zero 2), and on a
     * server, own_from, and the last element is then own_to - 1 */
    uint64_t *grad_from;
    /* [n_param] offset of the parameter's gradient in a gradient slot; UINT64_MAX: passes add to
     * the accumulator instead */
    uint64_t *gradient_in_slot;
    /* offset of gradient slot 0, and bytes of each slot; the other slots follow, aligned */
    uint64_t gradient, gradient_bytes;
    uint32_t n_gradient; /* number of gradient slots */
    /* bytes that sharded gradients save compared with unsharded accumulators; negative: they need
     * more */
    int64_t gradient_saved;
    /* number of accumulators per use; number of micro-batches that each accumulator sums */
    uint32_t parts, part_micros;
    /* offset and size of the contiguous accumulators that tensor ranks reduce; 0 bytes: none */
    uint64_t partial, partial_bytes;
    /* [n_tensor] offset of the data tensor for micro-batch 0; micro-batch m follows m *
     * pst_tensor_bytes later */
    uint64_t *data;
    /* [n_tensor] offset of the output tensor for micro-batch 0; the other micro-batches as for
     * data */
    uint64_t *output;
    /* For training and for evaluation: [n_class] offset of slot 0 of each slot class (UINT64_MAX:
     * the chunk is not on this rank); slot k is k * (aligned bytes of the class) later.
     * scratch_base: offset of the scratch memory. */
    uint64_t *class_base, *eval_class_base;
    uint64_t scratch_base, eval_scratch_base;
    const pst_cut *eval_cut; /* borrowed; identifies the cut of evaluation */
    /* offset of the receive buffer for gradient accumulators of tied parameters; it lies in SLOT
     * and SCRATCH, which are not in use then. UINT64_MAX: not needed */
    uint64_t shared_grad;
    uint64_t shared_grad_bytes;
    /* [n_param] with post-validation or eager updates: offset of the copy that STEP saves (master
     * weights, then states, aligned); lies in SLOT and SCRATCH, like shared_grad */
    uint64_t *undo;
    uint64_t undo_end;
    /* offset of the scratch memory of parameters that STEP updates as a whole; in SLOT and SCRATCH
     * behind `undo`. UINT64_MAX: not needed */
    uint64_t whole;
    /* offset of memory in which frozen parameters of 16 bits are initialized in fp32, one at a
     * time; in SLOT and SCRATCH. UINT64_MAX: not needed */
    uint64_t frozen;
    /* offset of receive buffer 0 of reductions over replicas, and bytes of each buffer; the other
     * buffers follow, aligned */
    uint64_t buffer, buffer_bytes;
    uint32_t n_buffer;
    /* offset of the packed gradient within a receive buffer; before it is the memory in which the
     * gradient is unpacked, if the buffer may be the first operand of a sum */
    uint64_t buffer_packed;
    /* For parameters whose gradients have residuals (UINT64_MAX: they have none): [n_param] offset
     * of the residual, of all elements; of the residual that this step leaves if it is applied, of
     * elements [next_from, next_to) only: that of the others replaces the accumulator; and of the
     * packed gradient, of all elements */
    pst_codec up, down; /* those of the job */
    uint64_t *residual, *next, *next_from, *next_to, *packed;
    /* [n_param] offset of this replica's second moments, of all elements, where its messages are
     * steps (pst_job_has_moments); UINT64_MAX: none */
    uint64_t *second;
    /* [n_param] offset of the basis (pst_codec_basis) of all elements; UINT64_MAX: none is kept */
    uint64_t *basis;
    uint8_t *is_step; /* [n_param] 1: the sum of what replicas send is a step (of any rank) */
    /* [n_param] 1: `weight` is the copy that all ranks with the parameter have and that changes are
     * added to (job.down); offset of the packed change, of all elements, UINT64_MAX: none */
    uint8_t *is_copy;
    uint64_t *change;
    /* Islands (compile/outer.h): [n_param] elements [outer_from, outer_to) of which this rank takes
     * the outer step; offsets of their old weights and outer momentum, UINT64_MAX: none. Receive
     * buffers as for reductions. */
    uint64_t *outer_from, *outer_to, *old, *velocity;
    /* Packed differences (job.islands_codec): [n_param] offsets of the old weights, of the residual
     * and of the packed difference of elements [own_from, own_to), UINT64_MAX: none. `old` is then
     * inside `base`. outer_packed: offset of the packed difference in a receive buffer of the outer
     * step, behind the memory in which it is unpacked. */
    pst_codec islands_codec; /* that of the job */
    uint64_t *base, *left, *difference, outer_packed;
    /* With a delay: [n_param] offsets of kept weights, of elements [own_from, own_to), UINT64_MAX:
     * none; those of different fragments overlay each other, in kept_bytes from kept_base on. The
     * receive buffers are in the same region. */
    uint64_t *kept, kept_base, kept_bytes;
    uint64_t outer_buffer, outer_buffer_bytes;
    uint32_t n_outer_buffer;
    /* Norm messages, in region CONTROL. `root`: the rank that computes the norm, here called rank
     * 0: with islands, the first rank of the island. The message of a rank to rank 0 has the loss
     * of each micro-batch of the rank, then the sum of squares of each piece (share.h) of its part
     * of the norm, by parameter in name order, of norm_words numbers each. The answer of rank 0 has
     * the sum of losses, the norm and the clip factor. */
    uint32_t n_owned, *owned;       /* parameters with a part in this rank's norm, in name order */
    uint64_t norm_own, norm_answer; /* offsets of this rank's message and of the answer */
    /* on rank 0: [n_rank] offset of the message of each rank; on a server with asynchronous
     * updates: [workers] of the norm of each worker (PST_SERVED_DOUBLES numbers) */
    uint64_t *norm_of_rank;
    /* [n_rank] numbers of losses and of pieces in the message of each rank; set for this rank, and
     * on rank 0 for all ranks; on such a server the numbers of a worker's norm count as losses */
    uint32_t *loss_of_rank, *piece_of_rank, norm_words;
    uint32_t root;
};

enum { PST_MEMORY_PAGE = 4096 };
/* Returns where the memory at `offset` is on a side. */
static inline uint64_t pst_memory_map_side(const pst_memory_map *x, uint64_t offset,
                                           uint32_t side) {
    if (!side || offset < x->twin_from || offset >= x->twin_to) return offset;
    return offset - x->twin_from + x->twin;
}

/* Returns the first element of a parameter's weight on this rank. */
static inline uint64_t pst_memory_map_weight_from(const pst_memory_map *x, uint32_t param) {
    return x->serves ? x->own_from[param] : 0;
}

typedef struct {
    const pst_graph *g;
    const pst_cut *cut, *eval_cut;
    const pst_job *job, *eval;
    const pst_slots *slots, *eval_slots;
    const pst_optim_row *optim;
    /* [n_param] bytes of scratch memory of a parameter that STEP updates as a whole; NULL: none is
     */
    const uint64_t *whole;
    int whole_together; /* 1: of all of these parameters at once; 0: of one at a time */
    int twins;          /* 1: of an elastic run: the state has two sides */
    uint32_t rank;
} pst_memory_map_spec;
/* Builds the memory map of spec->rank. cut and slots are those of the rank's lane. Data and outputs
 * have space for the larger n_micro of job and eval. eval_cut, eval and eval_slots are all NULL
 * without evaluation. optim NULL: no gradients, optimizer states and flush (generation). Graph and
 * cuts are borrowed and must outlive the map. The caller frees *map with pst_memory_map_close.
 * ENOMEM. */
pst_status pst_memory_map_build(const pst_memory_map_spec *spec, pst_memory_map **map);
void pst_memory_map_close(pst_memory_map *map);
/* A map with an arena. cut and slots: of training or of evaluation. */
typedef struct {
    const pst_memory_map *map;
    const pst_cut *cut;
    const pst_slots *slots;
    const pst_graph *g;
    uint8_t *arena;
    uint32_t side; /* of the state */
    /* sets of accumulators: of the present step, and of the step whose gradients STEP applies */
    uint32_t set, due;
} pst_memory_view;
/* Returns the address of an operand for one micro-batch; NULL for a NULL operand, and for one in
 * the step's scratch memory. */
void *pst_memory_map_address(const pst_memory_view *view, uint32_t chunk,
                             const pst_operand *operand, uint32_t micro);
/* Returns the scratch memory of a step's kernel; NULL if it needs none. */
void *pst_memory_map_scratch(const pst_memory_map *map, const pst_cut *cut, const pst_step *step,
                             uint8_t *arena);
/* Returns the address of the data that a SEND or RECV transfers. */
void *pst_memory_map_message(const pst_memory_view *view, const pst_instr *instr);
/* Returns the address of a receive buffer of the outer step; of element `from` of kept weights. */
float *pst_memory_map_outer(const pst_memory_view *view, uint32_t buffer);
/* Return the address of the packed difference in such a buffer; of that of an instruction's piece
 * of this rank. */
uint8_t *pst_memory_map_outer_packed(const pst_memory_view *view, uint32_t buffer);
uint8_t *pst_memory_map_difference(const pst_memory_view *view, const pst_instr *instr);
float *pst_memory_map_kept(const pst_memory_view *view, uint32_t param, uint64_t from);
/* The memory of a PACK of instr->n elements. next: of the residual that it leaves; in_place: this
 * is the gradient's own memory. */
typedef struct {
    float *gradient, *residual, *next;
    float *second; /* this replica's second moments; NULL: none */
    float *basis;  /* from the first block of the message on; NULL: none */
    uint8_t *packed;
    int in_place;
} pst_memory_pack;
pst_memory_pack pst_memory_map_pack(const pst_memory_view *view, const pst_instr *instr);
/* Returns the packed gradient in a receive buffer of a REDUCE or UNPACK. */
const uint8_t *pst_memory_map_packed(const pst_memory_view *view, const pst_instr *instr);
/* Sets *sum and *operand to the addresses for a REDUCE, which adds instr->n (0: all) elements of
 * *operand to *sum. */
void pst_memory_map_reduce(const pst_memory_view *view, const pst_instr *instr, float **sum,
                           float **operand);
/* Checks that buffers in use at the same time do not overlap and that each buffer lies in its
 * region. cut and slots: of training or of evaluation. EINTERNAL names the buffers; ENOMEM. */
pst_status pst_memory_map_check(const pst_memory_map *map, const pst_cut *cut,
                                const pst_slots *slots);
/* Writes a table of the regions with offsets and sizes in bytes. ENOMEM if `out` cannot be
 * written. */
pst_status pst_memory_map_print(const pst_memory_map *map, const pst_graph *g, FILE *out);
#endif
