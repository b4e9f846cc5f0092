/* Cleans up what killed ranks left in /dev/shm. */
#ifndef PST_COMM_TRANSPORT_UCX_SWEEP_H
#define PST_COMM_TRANSPORT_UCX_SWEEP_H

/* Removes this user's UCX segments that no process holds open. Ignores errors. */
void pst_ucx_sweep(void);
#endif
