/* Slots: memory that micro-batches of a value take turns in. */
#ifndef PST_PIPELINE_COMPILE_SLOTS_H
#define PST_PIPELINE_COMPILE_SLOTS_H
#include "pipeline/compile/builder.h"

pst_status pst_slots_open(const pst_cut *cut, uint32_t n_micro, pst_slots **slots);
/* Chooses the slots of the rank at hand from its complete list and adds the deps that their reuse
 * needs. */
void pst_builder_assign_slots(pst_job_builder *b);
#endif
