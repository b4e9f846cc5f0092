/* The parts of a report's page, in their order on the page. A part without data draws nothing. */
#ifndef PST_REPORT_PAGE_H
#define PST_REPORT_PAGE_H
#include "report/data.h"

/* Ranks from this number on are not drawn. */
enum { PST_REPORT_ROWS = 128 };

/* summary.c: the head (name, state, model, machine), and tiles with the most important numbers.
 * ENOMEM. */
void pst_report_draw_head(const pst_report_data *d, FILE *out);
pst_status pst_report_draw_tiles(const pst_report_data *d, FILE *out);
/* curves.c: ENOMEM. */
pst_status pst_report_draw_curves(const pst_report_data *d, FILE *out);
/* step_rows.c: the traced step, measured and predicted, and each rank's time by kind. */
void pst_report_draw_timeline(const pst_report_data *d, FILE *out);
void pst_report_draw_times(const pst_report_data *d, FILE *out);
/* Draws one panel of a timeline, between open and close. rank: [n_rank] rank in each row; NULL: row
 * r is rank r. */
void pst_report_open_timeline(const pst_report_trace *t, FILE *out);
void pst_report_draw_panel(const pst_report_trace *t, pst_grid grid, int predicted,
                           const uint32_t *rank, FILE *out);
void pst_report_close_timeline(const pst_report_trace *t, FILE *out);
/* work.c: time of all steps by kernel. */
void pst_report_draw_work(const pst_report_data *d, FILE *out);
/* memory.c */
void pst_report_draw_memory(const pst_report_data *d, FILE *out);
/* members.c: the number of ranks of an elastic run over time; nothing if it never changed. */
void pst_report_draw_members(const pst_report_data *d, FILE *out);
/* events.c: other events, the plan, the run file. */
void pst_report_draw_events(const pst_report_data *d, FILE *out);
void pst_report_draw_files(const pst_report_data *d, FILE *out);

/* page.c: start and end of a page, with styles and script. */
void pst_report_open_page(const char *title, FILE *out);
void pst_report_close_page(FILE *out);
/* Prints the whole page. ENOMEM: no memory, or the disk is full. */
pst_status pst_report_print(const pst_report_data *d, FILE *out);

/* typical.c: median of n values, of which NaN are ignored; NaN if no value is left. ENOMEM. */
pst_status pst_report_median(const double *value, size_t n, double *median);
#endif
