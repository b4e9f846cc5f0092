/* Passes schedules that the launcher has solved (parallel.schedule solved) to the local ranks in an
 * anonymous file, which they inherit: solving takes about a second of processor time, and otherwise
 * every rank would do it at the same time. Ranks compare their schedules at start-up
 * (group/compare.h), so a difference is detected. */
#ifndef PST_PREPARE_SOLVED_FILE_H
#define PST_PREPARE_SOLVED_FILE_H
#include "prepare/prepare.h"

/* In the launcher, before ranks start: writes p's schedules if they were solved. If that fails,
 * each rank solves by itself. */
void pst_solved_file_write(const pst_prepared *p);

/* In a rank: the schedules from the launcher's file; n is 0 if there is no file. Only the first
 * call in a process reads them, because layouts that are prepared later (for advice about memory)
 * are other problems. */
typedef struct {
    uint32_t n, chunks;      /* number of schedules; chunks per rank */
    pst_schedule **schedule; /* [n] one for each distinct number of micro-batches per replica */
    char solved[192];        /* pst_prepared.solved */
} pst_solved_file;
pst_status pst_solved_file_open(pst_solved_file *file);
void pst_solved_file_close(pst_solved_file *file);
#endif
