/* Schedules from and to the CSV of PyTorch's pipelining runtime. */
#ifndef PST_PIPELINE_SCHEDULE_CSV_H
#define PST_PIPELINE_SCHEDULE_CSV_H
#include "pipeline/schedule/schedule.h"

/* One line per rank; B and W apart are written as I and W, fused BW as B. */
pst_status pst_schedule_csv_write(const pst_schedule *schedule, FILE *out);
/* A checked schedule called "custom", of as many ranks, stages (chunks) and micro-batches as occur.
 * EINPUT with line and column, or what the order lacks. Where I or W occurs, a B is both, one
 * behind the other. */
pst_status pst_schedule_csv_load(const char *path, pst_schedule **schedule);
/* The same from memory; `file` is the name for messages. */
pst_status pst_schedule_csv_parse(const char *text, size_t bytes, const char *file,
                                  pst_schedule **schedule);
#endif
