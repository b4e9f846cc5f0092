/* Type and extent in memory of an operand of a tape step, for code that inspects operands
 * (replay.h, recorder.h). */
#ifndef PST_RANK_EXTENT_H
#define PST_RANK_EXTENT_H
#include "pipeline/compile/cut.h"

/* Type and number of elements of an operand, and its rows if there are gaps between rows. */
typedef struct {
    const pst_value *value; /* NULL: a parameter or its gradient */
    pst_dtype dtype;
    uint64_t n;          /* elements without gaps; 0: the operand is absent */
    uint64_t row, pitch; /* elements of a row, and from one row to the next; pitch 0: no gaps */
} pst_extent;

/* graph, cut: those of this tensor rank; chunk: the chunk whose tape contains the operand. */
pst_extent pst_extent_of(const pst_graph *graph, const pst_cut *cut, uint32_t chunk,
                         const pst_operand *operand);
#endif
