/* What the device of far_module.c says of its choices of algorithms, of which it has none: one is
 * noted for each shape of a weight, by name, so that runs, plans and resumed runs hand them on.
 * Ends the process where there is no memory. */
#ifndef TESTS_FAR_FAR_CHOICES_H
#define TESTS_FAR_FAR_CHOICES_H
#include "base/choice.h"
#include "graph/graph.h"

typedef struct {
    int measures; /* choices of this process, as measuring would make them */
    uint32_t n_given, n_chosen;
    pst_choice *given, *chosen;
} far_choices;

/* Of the product with weight w, unless it is there. */
void far_choices_choose(far_choices *c, const char *model, const pst_param *w);
/* Those of a plan, which go before its own. */
void far_choices_give(far_choices *c, int measures, const pst_choice *list, uint32_t n);
/* The i-th; 0: there are no more. */
int far_choices_take(const far_choices *c, uint32_t i, pst_choice *choice);
void far_choices_close(far_choices *c);
#endif
