/* Private to step_rows.c and step_rows_folded.c: SVG units of a timeline panel, and rows with more
 * boxes than can be drawn one by one. */
#ifndef PST_REPORT_STEP_ROWS_H
#define PST_REPORT_STEP_ROWS_H
#include "report/data.h"

/* SVG units: width of a panel, height of a row, height of the boxes in a row. */
enum { PST_STEP_ROWS_WIDTH = 100000, PST_STEP_ROWS_ROW = 10, PST_STEP_ROWS_BOX = 8 };

/* Draws n slices of a rank as one row in which columns show shares of time. end: end of the time
 * axis, us; css: CSS class of each kind before PST_REPORT_TRANSFER. */
void pst_step_rows_draw_folded(const pst_report_slice *s, size_t n, uint32_t row, double end,
                               const char *const *css, FILE *out);
#endif
