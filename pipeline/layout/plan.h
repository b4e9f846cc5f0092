/* A plan: a layout, the hash of its graph, and predictions. Runs write it to runs/NAME/plan.yaml.
 * The public header (penstock/plan.h) declares the functions that close, check, print and load
 * plans. */
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
    /* With a cut of the graph's operators, and with stage and recomputation of each chunk. If
     * stages have different numbers of tensor ranks, the operators are those of the whole model,
     * and a tensor exchange belongs to the operator that needs the result. data 0: an old plan file
     * without replicas, tensor ranks and devices. */
    pst_layout layout;
    uint64_t graph_hash; /* hash of the graph */
    uint64_t step_ns;    /* predicted step time in ns, flush included; 0: not simulated */
    uint64_t flush_ns;   /* predicted part of step_ns after the last backward pass */
    /* lower bound of the step over all layouts of the search, ns; 0: there was no search */
    uint64_t bound_ns;
    double bubble; /* predicted idle share, 0 to 1, of the rank with the longest span */
    /* [layout.pipeline] predicted peak bytes of each stage; all 0 without a memory map */
    uint64_t *peak_bytes;
    char *cluster; /* cluster file or short form; NULL: not given */
    char *run;     /* run file of the plan; NULL: unknown */
    uint32_t n_override;
    char **override; /* [n_override] "section.key=value", command-line overrides of the run file */
    /* number of algorithms that were chosen by measurement on the devices of the run */
    uint32_t n_choice;
    pst_choice *choice;
};

/* Creates a plan with a copy of the layout, which may have no cut yet; predictions are 0. The
 * caller frees *plan with pst_plan_close. ENOMEM. */
pst_status pst_plan_open(const pst_layout *layout, uint64_t graph_hash, pst_plan **plan);
/* Creates a deep copy; the caller frees *plan. ENOMEM. */
pst_status pst_plan_copy(const pst_plan *from, pst_plan **plan);
/* Return the grid of the whole job, which is valid as long as the plan, and the number of ranks of
 * the job. */
pst_grid pst_plan_grid(const pst_plan *plan);
uint32_t pst_plan_job_ranks(const pst_plan *plan);
/* Replaces *text (plan->cluster or plan->run) by a copy of `to`, or by NULL if `to` is NULL, "" or
 * not UTF-8. ENOMEM. */
pst_status pst_plan_set_text(char **text, const char *to);
/* Replaces the chosen algorithms by copies of choice[0..n). ENOMEM. */
pst_status pst_plan_set_choices(pst_plan *plan, const pst_choice *choice, uint32_t n);
/* Like pst_plan_load, but parses `text`, which messages call `file`. */
pst_status pst_plan_parse(const char *text, size_t bytes, const char *file, pst_plan **plan);
#endif
