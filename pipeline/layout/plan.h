/* The plan: a layout, the graph that it is for, and what is predicted of it. Written to
 * runs/NAME/plan.yaml and read back. Closed, checked (hash, no empty chunk, ranks in range),
 * printed and loaded through the public header. */
#ifndef PST_PIPELINE_LAYOUT_PLAN_H
#define PST_PIPELINE_LAYOUT_PLAN_H
#include "base/choice.h"
#include "base/status.h"
#include "graph/graph.h"
#include "penstock/plan.h"
#include "pipeline/layout/layout.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct pst_plan {
    pst_layout layout;    /* With a cut of the graph's operators, each chunk's rank and each chunk's
                             recomputation. Where stages have different numbers of tensor ranks, the
                             operators are those of the model, and exchanges belong to the operator
                             that needs them. data 0: an old file, which says nothing of
                             replicas, tensor ranks and devices */
    uint64_t graph_hash;  /* of the graph that is cut */
    uint64_t step_ns;     /* predicted step time, flush included; 0 until simulated */
    uint64_t flush_ns;    /* its part after the last backward pass */
    uint64_t bound_ns;    /* no layout that was to be tried has a shorter step; 0: none was looked
                             for */
    double bubble;        /* predicted, of the rank with the longest span */
    uint64_t *peak_bytes; /* [layout.pipeline] predicted; all 0 until laid out */
    char *cluster;        /* its file or short form; NULL: none */
    char *run;            /* the run file that it was made from; NULL: not known */
    uint32_t n_override;
    char **override;   /* [n_override] "section.key=value", with which that file was read */
    uint32_t n_choice; /* made by measuring on the devices of the run that wrote the plan */
    pst_choice *choice;
};

/* Of a copy of this layout, whose cut may be missing still; nothing is predicted yet. ENOMEM. */
pst_status pst_plan_open(const pst_layout *layout, uint64_t graph_hash, pst_plan **plan);
/* Everything of `from`, with nothing shared. ENOMEM. */
pst_status pst_plan_copy(const pst_plan *from, pst_plan **plan);
/* The grid of the whole job, valid as long as the plan; and its ranks. */
pst_grid pst_plan_grid(const pst_plan *plan);
uint32_t pst_plan_job_ranks(const pst_plan *plan);
/* Sets plan->cluster or run; NULL or "", or what is not UTF-8: none. ENOMEM. */
pst_status pst_plan_set_text(char **text, const char *to);
/* These choices instead of those that it has. ENOMEM. */
pst_status pst_plan_set_choices(pst_plan *plan, const pst_choice *choice, uint32_t n);
/* pst_plan_load from memory; `file` is the name for messages. */
pst_status pst_plan_parse(const char *text, size_t bytes, const char *file, pst_plan **plan);
#endif
