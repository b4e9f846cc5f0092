/* Slots: memory that several micro-batches use one after another. */
#ifndef PST_PIPELINE_COMPILE_SLOTS_H
#define PST_PIPELINE_COMPILE_SLOTS_H
#include "pipeline/compile/cut.h"

/* A class of the cut (same index) with the slots that this job needs. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    uint64_t bytes; /* size of one slot; buffers are in it at pst_buffer.offset */
    uint32_t n_slot;
    uint32_t *slot_of_micro; /* [n_micro] */
} pst_class;
/* The slot of each class and micro-batch. Computed together with the lists, because reusing a slot
 * is a dependency on the last readers of its previous micro-batch. A slot that a SEND reads is held
 * at least through the next compute instruction, so that sending overlaps with it, and until the
 * receiver can have posted its RECV (unit_time.c), so that no wait for it can close a cycle. A RECV
 * comes before the compute instruction that precedes its consumer: the next input arrives while the
 * current one computes. */
typedef struct {
    uint32_t n_class, n_micro;
    pst_class *class_;  /* [n_class], as pst_cut.class_ */
    uint32_t *gradient; /* zero 2: [n_chunk][n_micro] the gradient slot that a chunk's weight
                           gradients are written to, on the chunk's rank; else NULL */
} pst_slots;
pst_status pst_slots_open(const pst_cut *cut, uint32_t n_micro, pst_slots **slots);
void pst_slots_close(pst_slots *slots);
#endif
