/* What the launcher of local ranks has solved already (parallel.schedule solved), handed on to them
 * in a file without a name that they inherit: solving takes a second of a processor, and ranks
 * would all do it at once. That they got the same is proven with the rest when they compare
 * schedules at their start. */
#ifndef PST_PREPARE_HANDOFF_H
#define PST_PREPARE_HANDOFF_H
#include "prepare/prepare.h"

/* Of the launcher, before ranks start: hands on p's order where it was solved for. Where that fails
 * they solve themselves. */
void pst_handoff_write(const pst_prepared *p);

/* Of a rank, for its run: the first to ask gets it, and what is prepared later (advice about
 * memory) is solved for. n 0: nothing was handed on. */
typedef struct {
    uint32_t n, chunks;      /* schedules; chunks per rank */
    pst_schedule **schedule; /* [n] one for each number of micro-batches that a replica has */
    char solved[192];        /* pst_prepared.solved */
} pst_handoff;
pst_status pst_handoff_open(pst_handoff *handoff);
void pst_handoff_close(pst_handoff *handoff);
#endif
