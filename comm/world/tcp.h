/* The rendezvous of world `tcp`: ranks connect to rank 0's address, prove that they know the job's
 * secret, and stay connected to rank 0. From a process that has not proved this, only a message of
 * fixed size is read. */
#ifndef PST_COMM_WORLD_TCP_H
#define PST_COMM_WORLD_TCP_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct {
    uint32_t rank, size;
    uint32_t servers;           /* of the ranks of a DMLC job, the last ones that are servers */
    const char *address, *port; /* where rank 0 listens: a host name or address, and a port */
    /* the variables that contain address and port, for messages; NULL: MASTER_ADDR, MASTER_PORT */
    const char *variables;
    const char *secret; /* at least PST_SECRET_MIN characters */
    uint32_t seconds;   /* time limit for all ranks to join, s */
    /* rank 0: a socket that listens at the address already, which pst_tcp_join closes; 0: none */
    int listener;
} pst_tcp_job;

/* EINPUT: the secret is missing or too short for several ranks. */
pst_status pst_tcp_check_secret(const pst_tcp_job *job);
/* 1: the address is reachable from this host only. */
int pst_tcp_is_loopback(const struct sockaddr *at);
/* Formats an address as "NAME:PORT", followed by the numeric address if NAME is a host name, and a
 * remark if that is loopback. Returns text. */
enum { PST_TCP_ADDRESS_TEXT = 200 };
const char *pst_tcp_address_text(const pst_tcp_job *job, const struct sockaddr *at, socklen_t bytes,
                                 char text[PST_TCP_ADDRESS_TEXT]);
/* Formats the local address of a socket in the same way. */
const char *pst_tcp_own_address_text(const pst_tcp_job *job, int fd,
                                     char text[PST_TCP_ADDRESS_TEXT]);
/* Accepts a connection and sets it up (pst_tcp_set_up); *fd is -1 if the other end has closed it
 * already. who: name of this process for messages. ENOMEM: no descriptor or memory is left. */
pst_status pst_tcp_accept(int listener, const char *who, int *fd);

/* Blocks until all ranks have joined. fd: [size], provided by the caller: on rank 0 becomes a
 * connected socket to every other rank, on the others one to rank 0; -1 elsewhere. EINPUT: rank 0
 * has a different secret or job size, two processes have the same rank, or the address is invalid.
 * EPEER: ranks are missing after the time limit; the message lists them. On failure all sockets are
 * closed. */
pst_status pst_tcp_join(const pst_tcp_job *job, int *fd);

struct pst_world;
/* tcp.c. Opens the world of such a job. like: the members of the world that do not follow from the
 * job. On failure the job's listener is closed too. */
pst_status pst_world_tcp_meet(const pst_tcp_job *job, const struct pst_world *like,
                              struct pst_world **world);

/* tcp_connect.c. Opens a listening socket; port "0" is replaced by the number of a free port. */
pst_status pst_tcp_listen(const char *address, char port[8], int *listener);
/* Connects to the job's address, where a process may start to listen later; tries for `seconds`
 * seconds, or until there has been no route to any address for a few seconds. who: name of the
 * other end for messages. EPEER: not connected. */
pst_status pst_tcp_connect(const pst_tcp_job *job, uint32_t seconds, const char *who, int *fd);
void pst_tcp_pause(void); /* sleeps shortly before the next attempt */

/* tcp_socket.c. `until` is a time of pst_monotonic_ns(); PST_NEVER: no limit. milliseconds: time
 * left as a timeout of poll(), at most a minute; -1: no limit. wait: waits for poll() events of a
 * socket; EPEER: not before the limit. */
int pst_tcp_milliseconds(uint64_t until);
/* From now on, waits of this process fail with EPEER as soon as over(arg) is 1, and a rank that is
 * rejected tries again until its time limit, as in an elastic job, whose ranks meet several times.
 * NULL: no longer. Called from the training thread only. */
void pst_tcp_give_up_when(int (*over)(void *arg), void *arg);
int pst_tcp_meets_again(void); /* 1: such a function is set */
int pst_tcp_is_over(void);     /* 1: it is set, and returns 1 */
pst_status pst_tcp_wait(int fd, short events, uint64_t until);
/* Sets a socket to non-blocking, with TCP_NODELAY and keep-alive probes that detect a lost host
 * after about 25 s. */
void pst_tcp_set_up(int fd);
/* Transfers all bytes over a non-blocking socket. EPEER: the connection is lost, or the time limit
 * has passed. */
pst_status pst_tcp_write(int fd, const void *data, size_t bytes, uint64_t until);
pst_status pst_tcp_read(int fd, void *data, size_t bytes, uint64_t until);
#endif
