/* Fault injection for testing a cluster: PENSTOCK_FAULT makes one rank misbehave once
 * (CONTRIBUTING.md). When it is unset, nothing is wrapped and there is no cost. */
#ifndef PST_COMM_TRANSPORT_INJECT_H
#define PST_COMM_TRANSPORT_INJECT_H
#include "base/transport.h"

/* PENSTOCK_FAULT is KIND:rank=R,message=N[,ms=M]. At the N-th send of rank R, counted from 1, KIND
 * does: drop: the message is never sent; size: only half is sent; delay: the message is sent M ms
 * later; stop: the rank gets SIGSTOP; kill: the rank gets SIGKILL; stall: the rank's thread sleeps
 * for ever; spin: the thread computes for ever. repeat: from the N-th send on, the first message
 * whose contents differ from those of the previous message on its channel is sent with the previous
 * contents; messages of collectives do not count. skip:rank=R,collective=N: rank R does not take
 * part in its N-th collective. */
typedef struct pst_inject pst_inject;
/* *fault: NULL when this rank has no fault. EINPUT: the variable is malformed, or names none of the
 * n_rank ranks. */
pst_status pst_inject_open(uint32_t rank, uint32_t n_rank, pst_inject **fault);
void pst_inject_close(pst_inject *fault);
/* 1: this collective is to be skipped. */
int pst_inject_skips(pst_inject *fault);
/* Wraps a transport so that the fault occurs. The wrapper takes ownership of `inner`; the wrapper
 * itself is owned by `fault`. */
pst_transport *pst_inject_wrap(pst_inject *fault, pst_transport *inner);
#endif
