/* How ranks ask for the memory of another host (elastic_hosts.h). The launcher sends a nonce, the
 * rank its own nonce and proof, the launcher its proof (secret.h); then the rank sends one
 * pst_elastic_range after the other, each of which is answered with the bytes alone. All hosts have
 * the same build, so numbers are as in memory. */
#ifndef PST_COMM_WORLD_ELASTIC_WIRE_H
#define PST_COMM_WORLD_ELASTIC_WIRE_H
#define PST_ELASTIC_ASKS "penstock memory"
#define PST_ELASTIC_GIVES "penstock gives memory"
/* elastic_memory.c. Starts a thread of the launcher, in which signals are blocked; 0: it cannot. */
int pst_elastic_thread(void *(*run)(void *), void *arg);
#endif
