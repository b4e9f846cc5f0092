/* Passes the launcher's solved schedules (parallel.schedule solved) to its local ranks, in an
 * anonymous file that they inherit: solving takes a second of processor time, and all ranks would
 * do it at once. At their start ranks compare schedules with each other, so a difference is found.
 */
#ifndef PST_PREPARE_SOLVED_FILE_H
#define PST_PREPARE_SOLVED_FILE_H
#include "prepare/prepare.h"

/* In the launcher, before ranks start: writes p's schedules if they were solved. On failure ranks
 * solve themselves. */
void pst_solved_file_write(const pst_prepared *p);

/* In a rank: reads the schedules, for the first caller only, because what is prepared later (for
 * advice about memory) is another problem. n 0: there is no file. */
typedef struct {
    uint32_t n, chunks;      /* schedules; chunks per rank */
    pst_schedule **schedule; /* [n] one for each number of micro-batches of a replica */
    char solved[192];        /* pst_prepared.solved */
} pst_solved_file;
pst_status pst_solved_file_open(pst_solved_file *file);
void pst_solved_file_close(pst_solved_file *file);
#endif
