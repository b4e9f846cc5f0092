/* A plan: a layout, the graph that it is for, and the predictions for it. Written to
 * runs/NAME/plan.yaml and read back. The public header has what closes, checks (hash, no empty
 * chunk, ranks in range), prints and loads one. */
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
    /* Has a cut of the graph's operators, each chunk's stage and each chunk's recomputation.
     * Where stages have different numbers of tensor ranks, the operators are those of the model,
     * and an exchange belongs to the operator that needs it. data 0: an old file without
     * replicas, tensor ranks and devices */
    pst_layout layout;
    uint64_t graph_hash; /* hash of the graph that is cut */
    uint64_t step_ns;    /* predicted step time, flush included; 0 until simulated */
    uint64_t flush_ns;   /* part of step_ns after the last backward pass */
    uint64_t bound_ns; /* lower bound over all layouts that were searched; 0: there was no search */
    double bubble;     /* predicted, of the rank with the longest span */
    uint64_t *peak_bytes; /* [layout.pipeline] predicted; all 0 until there is a memory map */
    char *cluster;        /* cluster file or short form; NULL: none */
    char *run;            /* the run file that the plan was made for; NULL: unknown */
    uint32_t n_override;
    char **override;   /* [n_override] "section.key=value", given beside that run file */
    uint32_t n_choice; /* measured on the devices of the run that wrote the plan */
    pst_choice *choice;
};

/* Copies the layout, which may have no cut yet; predictions are 0. ENOMEM. */
pst_status pst_plan_open(const pst_layout *layout, uint64_t graph_hash, pst_plan **plan);
/* A deep copy. ENOMEM. */
pst_status pst_plan_copy(const pst_plan *from, pst_plan **plan);
/* The grid of the whole job, valid as long as the plan is; the number of its ranks. */
pst_grid pst_plan_grid(const pst_plan *plan);
uint32_t pst_plan_job_ranks(const pst_plan *plan);
/* Sets plan->cluster or plan->run to a copy; to NULL if `to` is NULL, "" or not UTF-8. ENOMEM. */
pst_status pst_plan_set_text(char **text, const char *to);
/* Replaces the choices. ENOMEM. */
pst_status pst_plan_set_choices(pst_plan *plan, const pst_choice *choice, uint32_t n);
/* Like pst_plan_load, from memory; messages call the text `file`. */
pst_status pst_plan_parse(const char *text, size_t bytes, const char *file, pst_plan **plan);
#endif
