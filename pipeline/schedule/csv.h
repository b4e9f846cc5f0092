/* Reads and writes schedules in the CSV format of PyTorch's pipelining runtime. */
#ifndef PST_PIPELINE_SCHEDULE_CSV_H
#define PST_PIPELINE_SCHEDULE_CSV_H
#include "pipeline/schedule/schedule.h"

/* Writes one line per rank. Separate B and W are written as I and W, a fused BW as B. ENOMEM if
 * `out` cannot be written. */
pst_status pst_schedule_csv_write(const pst_schedule *schedule, FILE *out);
/* Reads a schedule and checks it. The schedule is called "custom", and has the ranks, stages
 * (chunks) and micro-batches that occur in the file. If the file has I or W, B means I followed by
 * W. The caller frees *schedule. EINPUT: pst_error() gives line and column, or what is missing;
 * ENOMEM. */
pst_status pst_schedule_csv_load(const char *path, pst_schedule **schedule);
/* Like pst_schedule_csv_load, but parses `text`, which messages call `file`. */
pst_status pst_schedule_csv_parse(const char *text, size_t bytes, const char *file,
                                  pst_schedule **schedule);
#endif
