/* Schedules from and to the CSV of PyTorch's pipelining runtime. */
#ifndef PST_PIPELINE_SCHEDULE_CSV_H
#define PST_PIPELINE_SCHEDULE_CSV_H
#include "pipeline/schedule/schedule.h"

/* One line per rank; B and W apart are written as I and W, fused BW as B. */
pst_status pst_schedule_csv_write(const pst_schedule *schedule, FILE *out);
/* A checked schedule called "custom" with the ranks, stages (chunks) and micro-batches that occur
 * in the file. EINPUT with line and column, or what is missing. Where I or W occurs, B stands for I
 * followed by W. */
pst_status pst_schedule_csv_load(const char *path, pst_schedule **schedule);
/* The same from memory; messages call the text `file`. */
pst_status pst_schedule_csv_parse(const char *text, size_t bytes, const char *file,
                                  pst_schedule **schedule);
#endif
