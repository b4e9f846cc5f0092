/* The parts of a report's page, in the order in which they stand. Each draws nothing where there is
 * nothing to show. */
#ifndef PST_REPORT_PAGE_H
#define PST_REPORT_PAGE_H
#include "report/data.h"

/* Ranks that are drawn one by one; of more, the first. */
enum { PST_REPORT_ROWS = 128 };

/* summary.c: name, state, what ran where; and the few numbers that matter. ENOMEM. */
void pst_report_draw_head(const pst_report_data *d, FILE *out);
pst_status pst_report_draw_tiles(const pst_report_data *d, FILE *out);
/* curves.c: ENOMEM. */
pst_status pst_report_draw_curves(const pst_report_data *d, FILE *out);
/* step_rows.c: the traced step, measured and predicted, and what each rank's time went into. */
void pst_report_draw_timeline(const pst_report_data *d, FILE *out);
void pst_report_draw_times(const pst_report_data *d, FILE *out);
/* One panel of rows, within what open and close write. rank: [n_rank] which rank of the grid each
 * row is; NULL: row r is rank r. */
void pst_report_open_timeline(const pst_report_trace *t, FILE *out);
void pst_report_draw_panel(const pst_report_trace *t, pst_grid grid, int predicted,
                           const uint32_t *rank, FILE *out);
void pst_report_close_timeline(const pst_report_trace *t, FILE *out);
/* work.c: all steps, by what the kernels did. */
void pst_report_draw_work(const pst_report_data *d, FILE *out);
/* memory.c */
void pst_report_draw_memory(const pst_report_data *d, FILE *out);
/* events.c: the events that are no steps, the plan, the run file. */
void pst_report_draw_events(const pst_report_data *d, FILE *out);
void pst_report_draw_files(const pst_report_data *d, FILE *out);

/* page.c: what every page begins and ends with, styles and script included. */
void pst_report_open_page(const char *title, FILE *out);
void pst_report_close_page(FILE *out);
/* The whole page. ENOMEM: memory or the disk. */
pst_status pst_report_print(const pst_report_data *d, FILE *out);

/* typical.c: the middle of the values from `skip` on that are there, of n; NaN when there are none.
 * ENOMEM. */
pst_status pst_report_median(const double *value, size_t n, double *median);
#endif
