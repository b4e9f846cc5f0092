/* Time of a step by kind of work. The kinds are the operators, by name, then the parts of the
 * flush. */
#ifndef PST_RANK_WORK_H
#define PST_RANK_WORK_H
#include "pipeline/compile/job.h"

enum { PST_WORK_MAX = 40 }; /* capacity; at least pst_work_count() */

/* Time in kernels by kind, ns. */
typedef struct {
    uint64_t ns[PST_WORK_MAX];
} pst_work;

uint32_t pst_work_count(void);
/* "linear", ..., "sum", "reduce", "norm", "optimizer". */
const char *pst_work_name(uint32_t kind);
uint32_t pst_work_of_step(const pst_graph *g, const pst_step *step);
/* The kind of a flush instruction; PST_NONE if it computes nothing. */
uint32_t pst_work_of_flush(const pst_instr *instr);
/* Formats shares of all_ns, largest first; what no kind accounts for is waiting: "linear 88.1%,
 * attention 5.0%, ..., waiting 0.4%". */
void pst_work_text(const pst_work *work, uint64_t all_ns, char *text, size_t bytes);
#endif
