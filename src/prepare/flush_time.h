/* Durations of the flush on every rank, once there are lists and memory maps. */
#ifndef PST_PREPARE_FLUSH_TIME_H
#define PST_PREPARE_FLUSH_TIME_H
#include "partition/cost/account.h"
#include "prepare/prepare.h"

/* For a rank with a memory map. */
pst_account pst_prepare_account(const pst_prepared *p, uint32_t rank);
/* Sets NORM and STEP of every rank by its own parameters; with a profile REDUCE and GATHER too. */
void pst_prepare_time_flush(pst_prepared *p);
#endif
