/* What ranks that were killed have left in /dev/shm. */
#ifndef PST_COMM_TRANSPORT_UCX_SWEEP_H
#define PST_COMM_TRANSPORT_UCX_SWEEP_H

/* Removes this user's segments of UCX that no process holds open. What cannot be removed stays. */
void pst_ucx_sweep(void);
#endif
