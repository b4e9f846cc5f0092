/* Islands (parallel.local) in checkpoints: the weights that they share, the outer momentum, and the
 * weights and optimizer states of each. */
#ifndef PST_RUN_ISLANDS_H
#define PST_RUN_ISLANDS_H
#include "checkpoint/checkpoint.h"
#include "rank/rank.h"

/* What a rank reads. stored: number of islands in the checkpoint; 0: it has states without islands.
 * state: the island whose optimizer states it reads; weight 1: its weights too, else those that the
 * islands share. */
typedef struct {
    uint32_t stored, state;
    int weight;
} pst_islands;
/* With as many islands in the checkpoint as in the run, each reads its own. Else all begin with the
 * shared weights, and island k with the states of stored island k modulo their number. */
pst_islands pst_islands_for(const pst_rank *r, const pst_ckpt *ckpt);
/* Sets a rank's old weights and outer momentum; momentum that the checkpoint lacks becomes 0.
 * EINPUT as pst_ckpt_read_held. */
pst_status pst_islands_read(const pst_rank *r, const pst_ckpt *ckpt);
/* Sets what a rank keeps for an exchange that was under way. EINPUT as pst_ckpt_read_held. */
pst_status pst_islands_read_kept(const pst_rank *r, const pst_ckpt *ckpt);
/* Says what becomes of islands if the run has another number of them. */
void pst_islands_explain(const pst_prepared *p, const pst_ckpt *ckpt);
#endif
