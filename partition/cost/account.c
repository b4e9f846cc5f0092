/* See account.h. */
#include "partition/cost/account.h"

static uint64_t part_of(uint64_t n, uint32_t parts) { return (n + parts - 1) / parts; }

void pst_account_add(pst_account *a, const pst_account_rule *rule,
                     const pst_account_parameters *of) {
    const uint32_t parts = rule->zero ? rule->replicas : 1;
    const uint64_t gradients = of->accumulated * rule->grad_bytes;
    a->normed += of->elements / rule->replicas;
    a->stepped += of->elements / parts;
    a->weights += (of->elements + of->copied + of->frozen) * rule->weight_bytes;
    a->states += part_of(of->elements * rule->state_bytes, parts);
    if (rule->zero) /* only the first stage that uses a tied parameter steps it */
        a->gradients += rule->zero == 2 ? part_of(gradients, rule->replicas) +
                                              of->elements * rule->grad_bytes /* and one buffer for
                                                                                 a gradient */
                                        : gradients;
    else {
        a->stepped += of->copied;
        a->states += of->copied * rule->state_bytes;
        a->gradients += gradients;
    }
}
