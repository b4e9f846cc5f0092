/* Slots: memory that micro-batches use one after another. */
#ifndef PST_PIPELINE_COMPILE_SLOTS_H
#define PST_PIPELINE_COMPILE_SLOTS_H
#include "pipeline/compile/cut.h"

/* A slot class of the cut (same index as in pst_cut.class_), with the slots that a job needs. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    uint64_t bytes;          /* size of one slot; a buffer lies at pst_buffer.offset in the slot */
    uint32_t n_slot;         /* number of slots */
    uint32_t *slot_of_micro; /* [n_micro] slot of each micro-batch */
} pst_class;
/* The slots of all classes and micro-batches. They are computed together with the lists, because an
 * instruction that reuses a slot depends on the last readers of the slot's previous micro-batch. A
 * slot that a SEND reads stays in use at least until the end of the next compute instruction, so
 * that the transfer overlaps with computing, and until the receiver can have posted the RECV
 * (unit_time.c), so that waiting for the slot cannot close a cycle. A RECV comes before the compute
 * instruction that precedes the consumer: the next input arrives while the current one is
 * processed. */
typedef struct {
    uint32_t n_class, n_micro;
    pst_class *class_; /* [n_class], as pst_cut.class_ */
    /* zero 2: [n_chunk][n_micro] the gradient slot to which the weight gradients of the chunk are
     * written; else NULL */
    uint32_t *gradient;
} pst_slots;
pst_status pst_slots_open(const pst_cut *cut, uint32_t n_micro, pst_slots **slots);
void pst_slots_close(pst_slots *slots);
#endif
