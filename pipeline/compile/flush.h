/* The end of a step. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_H
#define PST_PIPELINE_COMPILE_FLUSH_H
#include "pipeline/compile/builder.h"

/* Appends the flush to the list at hand. */
void pst_builder_flush(pst_job_builder *b);
#endif
