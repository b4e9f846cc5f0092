/* Numbers of runs as plain text, for tables on the terminal. */
#ifndef PST_REPORT_TABLE_H
#define PST_REPORT_TABLE_H
#include "report/data.h"

enum { PST_TABLE_CELL = 48 };

/* Each formats into `text` and returns it; NaN gives "-". */
const char *pst_table_loss(double loss, char text[PST_TABLE_CELL]);
const char *pst_table_whole(double value, char text[PST_TABLE_CELL]);
const char *pst_table_clock(double seconds, char text[PST_TABLE_CELL]); /* 3:05, 2:03:05 */

/* The number of steps that a run is to make: of its start line, else of its run.yaml; NaN: unknown.
 */
double pst_table_steps(const pst_report_data *d);
/* The median of a curve over the last 20 steps that have it; NaN: none. ENOMEM. */
pst_status pst_table_recent(const pst_report_data *d, pst_report_curve curve, double *median);
/* The lowest validation loss, NaN: none; *step: where. */
double pst_table_best(const pst_report_data *d, double *step);
#endif
