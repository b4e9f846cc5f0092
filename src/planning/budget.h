/* A training of a number of tokens on several numbers of devices: duration, cost, energy, memory
 * that is left, checkpoints and failures (`penstock plan --tokens`). Each number of devices is
 * planned for as `penstock plan` does; everything else follows from its step. */
#ifndef PST_PLANNING_BUDGET_H
#define PST_PLANNING_BUDGET_H
#include "planning/planning.h"
#include "report/plan.h"
#include <jansson.h>

enum { PST_BUDGET_COUNTS = 16, PST_BUDGET_PRICES = 16 };

/* The options. */
typedef struct {
    double tokens;
    double days;      /* latest end; 0: none given */
    double mtbf_s;    /* mean time between failures of one device, s */
    double storage;   /* bytes per second that one node writes */
    uint32_t n_count; /* 0: the number of devices is not given */
    uint32_t count[PST_BUDGET_COUNTS];
    uint32_t n_price; /* 0: no cost */
    struct {
        char kind[24];
        double per_hour; /* of one device */
    } price[PST_BUDGET_PRICES];
} pst_budget_request;

/* One number of devices. NaN: unknown. */
typedef struct {
    uint32_t devices, nodes;
    /* fits 0: no layout, for the reason in `why`, and all below is NaN; timed_out: the search was
     * stopped */
    int fits, timed_out;
    char why[200];
    uint32_t pipeline, tensor, data, micro_batch, zero;
    char schedule[32];
    double step_s, gap, tokens_per_s, mfu;
    double days;                /* with failures */
    double days_low, days_high; /* with the range of the step (pst_planning_range) */
    double device_hours, cost, kwh;
    double free_bytes;          /* that the fullest device has left, besides the margin */
    double write_s, every_s;    /* of a checkpoint; from one to the next */
    double failures, effective; /* expected number; share of the time that makes progress */
} pst_budget_row;

typedef struct pst_budget {
    pst_budget_request request;
    /* steps of the training; trained parameters; bytes of a checkpoint */
    double steps, step_tokens, parameters, checkpoint_bytes;
    double limit_s; /* of the search of one number of devices; 0: none */
    uint32_t n_row;
    pst_budget_row row[PST_BUDGET_COUNTS];
    /* the row whose layout is printed in full: the smallest number of devices that ends in time, or
     * the fastest; in_time: 1 if it ends in time */
    uint32_t chosen;
    int in_time;
} pst_budget;

/* budget.c. Reads --tokens and what belongs to it. EINPUT: a value is wrong, or needs --tokens. */
pst_status pst_budget_read(const pst_plan_run_options *options, pst_budget_request *request);
/* Fills row->write_s and all that depends on the step: step_s, devices and nodes are set. */
void pst_budget_follow(const pst_budget *budget, pst_budget_row *row);
/* budget_counts.c. Plans for each number of devices, beginning with a copy of `begun` (config,
 * options, program), and prints the answer. Errors as pst_plan_run. */
pst_status pst_budget_run(const pst_planning *begun, FILE *out);
/* budget_text.c: print the table; return it as JSON (the caller's; NULL: no memory); fill the page
 * of the chosen layout, ENOMEM. */
void pst_budget_text(const pst_budget *budget, FILE *out);
json_t *pst_budget_json(const pst_budget *budget);
pst_status pst_budget_page(const pst_budget *budget, pst_plan_page *page);
/* Tokens per parameter at which a loss takes the least computation (Hoffmann et al. 2022, table
 * 3: 20.0 to 21.4 for models of 0.4 to 175 billion parameters). */
#define PST_BUDGET_CHINCHILLA 20.0
#endif
