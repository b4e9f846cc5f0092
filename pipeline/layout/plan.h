/* The plan: which chunk every node belongs to, which rank every chunk, how many micro-batches,
 * which schedule, and what is predicted. Written to runs/NAME/plan.yaml and read back. Closed,
 * checked (hash, contiguity, no empty chunk, ranks in range), printed and loaded through the public
 * header. */
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
    uint64_t graph_hash;
    char schedule[32];
    uint32_t n_rank, n_chunk, n_node, n_micro, micro_batch;
    uint32_t *chunk_of_node; /* [n_node], ascending: a chunk is a contiguous part of the operator
                                list */
    uint32_t *rank_of_chunk; /* [n_chunk] */
    uint8_t *recompute;      /* [n_chunk] pst_recompute */
    uint64_t step_ns;        /* predicted step time, flush included; 0 until simulated */
    uint64_t flush_ns;
    double bubble;        /* predicted, of the rank with the longest span */
    uint64_t *peak_bytes; /* [n_rank] predicted; all 0 until laid out */
    /* The whole job, of which the above is one pipeline. */
    uint32_t data, tensor; /* replicas, tensor ranks of each stage; data 0: a file of before says
                              nothing of these */
    uint32_t *before; /* where stages have different numbers of them, of which tensor is the most:
                         as in pst_grid; then the operators are those of the model, and exchanges
                         belong to the operator that needs them. NULL */
    uint32_t sequence, zero; /* as parallel.sequence and zero */
    uint32_t *micros;        /* [data] micro-batches of each replica; NULL: shared out */
    uint32_t *device; /* [ranks of the job] which device of the cluster each rank has, numbered as
                         grid.h does; NULL: rank r has device r */
    char *cluster;    /* its file or short form; NULL: none */
    char *run;        /* the run file that it was made from; NULL: not known */
    uint32_t n_override;
    char **override;   /* [n_override] "section.key=value", with which that file was read */
    uint32_t n_choice; /* made by measuring on the devices of the run that wrote the plan */
    pst_choice *choice;
    uint64_t bound_ns; /* no layout that was to be tried has a shorter step; 0: none was looked
                          for */
};

pst_status pst_plan_open(uint32_t n_node, uint32_t n_rank, uint32_t n_chunk, pst_plan **plan);
/* Everything of `from`, with nothing shared. ENOMEM. */
pst_status pst_plan_copy(const pst_plan *from, pst_plan **plan);
/* A plan for this graph, whose operators are the items of the layout's cut, with a stage for each
 * chunk; nothing is predicted yet. */
pst_status pst_plan_of_layout(const pst_layout *layout, const pst_graph *graph, pst_plan **plan);
/* What a layout says of the whole job: degrees, micro-batches, devices, sequence, zero. ENOMEM. */
pst_status pst_plan_take_layout(pst_plan *plan, const pst_layout *layout);
/* The layout of a plan that cuts operators as pst_plan_check wants it. ENOMEM. */
pst_status pst_plan_layout(const pst_plan *plan, pst_layout *layout);
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
