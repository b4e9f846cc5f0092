/* Fault injection for those who test their cluster: PENSTOCK_FAULT makes one rank misbehave once
 * (CONTRIBUTING.md). Unset, nothing is wrapped and nothing costs anything. */
#ifndef PST_COMM_TRANSPORT_INJECT_H
#define PST_COMM_TRANSPORT_INJECT_H
#include "base/transport.h"

/* KIND:rank=R,message=N[,ms=M] with R's N-th send, counted from 1: drop (it never leaves), size
 * (only half of it does), delay (it leaves M ms later), stop (SIGSTOP), stall (the rank's thread
 * sleeps for ever), spin (it computes for ever). skip:rank=R,collective=N: R does not take part in
 * its N-th collective. */
typedef struct pst_inject pst_inject;
/* *fault: NULL when this rank shall not misbehave. EINPUT: the variable makes no sense, or names
 * none of the n_rank ranks. */
pst_status pst_inject_open(uint32_t rank, uint32_t n_rank, pst_inject **fault);
void pst_inject_close(pst_inject *fault);
/* 1: leave this collective out. */
int pst_inject_skips(pst_inject *fault);
/* A transport that misbehaves as told; it takes `inner` over and closes it. Both fault's. */
pst_transport *pst_inject_wrap(pst_inject *fault, pst_transport *inner);
#endif
