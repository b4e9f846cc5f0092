/* Where the time of a step goes. The kinds of work are the operators by name, then the parts of the
 * flush. */
#ifndef PST_RANK_WORK_H
#define PST_RANK_WORK_H
#include "pipeline/compile/job.h"

enum { PST_WORK_MAX = 24 }; /* at least the number of kinds */

/* Nanoseconds by kind. */
typedef struct {
    uint64_t ns[PST_WORK_MAX];
} pst_work;

uint32_t pst_work_count(void);
/* "linear", ..., "sum", "reduce", "norm", "optimizer". */
const char *pst_work_name(uint32_t kind);
uint32_t pst_work_of_step(const pst_graph *g, const pst_step *step);
/* The kind of a flush instruction; PST_NONE if it computes nothing. */
uint32_t pst_work_of_flush(const pst_instr *instr);
/* "linear 88.1%, attention 5.0%, ..., waiting 0.4%": shares of all_ns, largest first; waiting is
 * the rest. */
void pst_work_text(const pst_work *work, uint64_t all_ns, char *text, size_t bytes);
#endif
