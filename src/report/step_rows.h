/* Private to step_rows.c and step_rows_folded.c: SVG units of a panel, and rows with more boxes
 * than can be drawn. */
#ifndef PST_REPORT_STEP_ROWS_H
#define PST_REPORT_STEP_ROWS_H
#include "report/data.h"

/* Units of the SVG: width, height of a row, and of the boxes in it. */
enum { PST_STEP_ROWS_WIDTH = 100000, PST_STEP_ROWS_ROW = 10, PST_STEP_ROWS_BOX = 8 };

/* end: end of the axis, us; css: the CSS class of each kind before TRANSFER. */
void pst_step_rows_draw_folded(const pst_report_slice *s, size_t n, uint32_t row, double end,
                               const char *const *css, FILE *out);
#endif
