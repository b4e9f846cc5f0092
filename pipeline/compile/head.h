/* The head of a list: the transfers of weights that other replicas have updated; and the end of the
 * flush, where these are changes of weights (flush.h). */
#ifndef PST_PIPELINE_COMPILE_HEAD_H
#define PST_PIPELINE_COMPILE_HEAD_H
#include "pipeline/compile/builder.h"

/* pst_builder_changes appends the messages with changes of weights to the flush, behind instruction
 * `step`, which is STEP or VALIDATE. */
void pst_builder_changes(pst_job_builder *b, uint32_t step);
/* pst_builder_head starts the current list with these transfers. pst_builder_await_head, called
 * when the list has its passes, makes each pass wait for the weights that it needs. */
void pst_builder_head(pst_job_builder *b);
void pst_builder_await_head(pst_job_builder *b);
#endif
