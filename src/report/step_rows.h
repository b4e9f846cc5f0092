/* Private to step_rows.c and step_rows_folded.c: the units of a panel's picture, and rows of more
 * boxes than can be seen. */
#ifndef PST_REPORT_STEP_ROWS_H
#define PST_REPORT_STEP_ROWS_H
#include "report/data.h"

/* Units of the SVG across, and down: of a row, and of the boxes in it. */
enum { PST_STEP_ROWS_WIDTH = 100000, PST_STEP_ROWS_ROW = 10, PST_STEP_ROWS_BOX = 8 };

/* end: of the axis, us; look: the class of each kind before TRANSFER. */
void pst_step_rows_draw_folded(const pst_report_slice *s, size_t n, uint32_t row, double end,
                               const char *const *look, FILE *out);
#endif
