/* Durations of the flush on every rank, computed from instruction lists and memory maps. */
#ifndef PST_PREPARE_FLUSH_TIME_H
#define PST_PREPARE_FLUSH_TIME_H
#include "partition/cost/account.h"
#include "prepare/prepare.h"

/* Bytes of each region of a rank's memory map; the rank must have one. */
pst_account pst_prepare_account(const pst_prepared *p, uint32_t rank);
/* Sets the durations of NORM and STEP, on every rank that has a memory map, from the parameters
 * that the rank owns; with a profile also those of REDUCE and GATHER. */
void pst_prepare_time_flush(pst_prepared *p);
/* The same on one rank, which must have a memory map. */
void pst_prepare_time_flush_of(pst_prepared *p, uint32_t rank);
#endif
