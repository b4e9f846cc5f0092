/* How long the flush takes every rank: once lists and memory maps are there. */
#ifndef PST_PREPARE_FLUSH_TIME_H
#define PST_PREPARE_FLUSH_TIME_H
#include "partition/cost/account.h"
#include "prepare/prepare.h"

/* Of a rank that has a memory map. */
pst_account pst_prepare_account(const pst_prepared *p, uint32_t rank);
/* NORM and STEP of every rank, by its own parameters; from a profile REDUCE and GATHER, too. */
void pst_prepare_time_flush(pst_prepared *p);
#endif
