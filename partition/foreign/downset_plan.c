/* Frees problems and plans of splits. */
#include "partition/foreign/downset.h"
#include <stdlib.h>

void pst_downset_problem_close(pst_downset_problem *p) {
    free(p->edge);
    free(p->time);
    free(p->size);
    free(p->exchange);
    free(p->net_first);
    free(p->pin);
    free(p->net_cost);
    *p = (pst_downset_problem){0};
}

void pst_downset_plan_close(pst_downset_plan *plan) {
    free(plan->part_of);
    free(plan->kind);
    free(plan->devices);
    *plan = (pst_downset_plan){0};
}
