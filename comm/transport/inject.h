/* Fault injection for testing a cluster: PENSTOCK_FAULT makes one rank misbehave once
 * (CONTRIBUTING.md). When it is unset, nothing is wrapped and there is no cost. */
#ifndef PST_COMM_TRANSPORT_INJECT_H
#define PST_COMM_TRANSPORT_INJECT_H
#include "base/transport.h"

/* KIND:rank=R,message=N[,ms=M] with R's N-th send, counted from 1: drop (it is never sent), size
 * (only half is sent), delay (it is sent M ms later), stop (SIGSTOP), stall (the rank's thread
 * sleeps for ever), spin (it computes for ever), kill (SIGKILL). repeat: from the
 * N-th on, the first one that differs from the one before it on its channel is sent with the
 * contents of that one; collectives do not count. skip:rank=R,collective=N: R does not take part in
 * its N-th collective. */
typedef struct pst_inject pst_inject;
/* *fault: NULL when this rank has no fault. EINPUT: the variable is malformed, or names none of the
 * n_rank ranks. */
pst_status pst_inject_open(uint32_t rank, uint32_t n_rank, pst_inject **fault);
void pst_inject_close(pst_inject *fault);
/* 1: this collective is to be skipped. */
int pst_inject_skips(pst_inject *fault);
/* A transport with the fault; it takes over `inner`, and closes it. It belongs to `fault`. */
pst_transport *pst_inject_wrap(pst_inject *fault, pst_transport *inner);
#endif
