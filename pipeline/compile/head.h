/* The head of a list: the transfers of weights that other replicas have updated. */
#ifndef PST_PIPELINE_COMPILE_HEAD_H
#define PST_PIPELINE_COMPILE_HEAD_H
#include "pipeline/compile/builder.h"

/* pst_builder_head starts the current list with these transfers. pst_builder_await_head, called
 * when the list has its passes, makes each pass wait for the weights that it needs. */
void pst_builder_head(pst_job_builder *b);
void pst_builder_await_head(pst_job_builder *b);
#endif
