/* The head of a list: weights that other replicas have stepped. */
#ifndef PST_PIPELINE_COMPILE_HEAD_H
#define PST_PIPELINE_COMPILE_HEAD_H
#include "pipeline/compile/builder.h"

/* Begins the list at hand with the weights that other replicas have stepped; then, once its passes
 * are there, makes them wait for what they need. */
void pst_builder_head(pst_job_builder *b);
void pst_builder_await_head(pst_job_builder *b);
#endif
