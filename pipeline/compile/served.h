/* What a server does with asynchronous updates (flush.h). */
#ifndef PST_PIPELINE_COMPILE_SERVED_H
#define PST_PIPELINE_COMPILE_SERVED_H
#include "pipeline/compile/builder.h"

/* The channels of gradients, and of the norms of workers. */
typedef struct {
    uint32_t gradients, norms;
} pst_served_channels;

/* Appends to the list of a server the parts of all workers. Returns the first STEP. */
uint32_t pst_builder_served(pst_job_builder *b, pst_served_channels at);
#endif
