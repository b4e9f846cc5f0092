/* The head of a list: weights that other replicas have updated. */
#ifndef PST_PIPELINE_COMPILE_HEAD_H
#define PST_PIPELINE_COMPILE_HEAD_H
#include "pipeline/compile/builder.h"

/* Starts the current list with the weights that other replicas have updated; later, when its passes
 * are there, makes them wait for the weights that they need. */
void pst_builder_head(pst_job_builder *b);
void pst_builder_await_head(pst_job_builder *b);
#endif
