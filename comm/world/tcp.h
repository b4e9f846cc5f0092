/* The rendezvous of world `tcp`: ranks connect to rank 0's address, prove that they know the job's
 * secret, and stay connected to rank 0. Of data from strangers only the fixed-size greeting is
 * read. */
#ifndef PST_COMM_WORLD_TCP_H
#define PST_COMM_WORLD_TCP_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct {
    uint32_t rank, size;
    const char *address, *port; /* where rank 0 listens: a host name or address, and a port */
    const char *variables;      /* which variables contain it, for messages; NULL: MASTER_ADDR,
                                   MASTER_PORT */
    const char *secret;         /* at least PST_SECRET_MIN characters */
    uint32_t seconds;           /* how long to wait for the other ranks */
    int listener; /* rank 0: a socket that listens there already, taken over; 0: none */
} pst_tcp_job;

/* EINPUT: the secret is missing or too short for several ranks. */
pst_status pst_tcp_check_secret(const pst_tcp_job *job);
/* 1 for an address that only this host itself can reach. */
int pst_tcp_is_loopback(const struct sockaddr *at);
/* "NAME:PORT", followed by the numeric address if NAME is a host name, and a remark if that is
 * loopback. Returns text. */
enum { PST_TCP_ADDRESS_TEXT = 200 };
const char *pst_tcp_address_text(const pst_tcp_job *job, const struct sockaddr *at, socklen_t bytes,
                                 char text[PST_TCP_ADDRESS_TEXT]);
/* The same for the local address of a socket. */
const char *pst_tcp_own_address_text(const pst_tcp_job *job, int fd,
                                     char text[PST_TCP_ADDRESS_TEXT]);
/* Accepts a connection and sets it up (pst_tcp_set_up); *fd is -1 when the caller is gone again.
 * ENOMEM when descriptors or memory ran out; `who` names this process in the message. */
pst_status pst_tcp_accept(int listener, const char *who, int *fd);

/* Blocks until all ranks have joined. fd: [size], the caller's; on rank 0 a connected socket to
 * every other rank, on the others one to rank 0; -1 elsewhere. EINPUT: another secret or job size
 * at rank 0, a rank that has joined twice, an invalid address. EPEER: ranks are missing after the
 * time limit (named). Nothing stays open on failure. */
pst_status pst_tcp_join(const pst_tcp_job *job, int *fd);

/* tcp_connect.c. Listens at an address and port; port "0" is replaced by a free one. */
pst_status pst_tcp_listen(const char *address, char port[8], int *listener);
/* Connects to the process that is to listen at the job's address, within so many seconds, or until
 * no address has had a route for a few seconds; `who` names the other end in messages. EPEER. */
pst_status pst_tcp_connect(const pst_tcp_job *job, uint32_t seconds, const char *who, int *fd);
void pst_tcp_pause(void); /* a short sleep before the next attempt */

/* tcp_socket.c. `until`: in pst_monotonic_ns() time, PST_NEVER for no limit. milliseconds: until
 * then, for poll(): at most a minute, -1 for no limit. wait: until a socket is readable or writable
 * (poll's events); EPEER after the limit. */
int pst_tcp_milliseconds(uint64_t until);
pst_status pst_tcp_wait(int fd, short events, uint64_t until);
/* Makes the socket non-blocking, without Nagle's delay; a host that vanishes is noticed after about
 * 25 s. */
void pst_tcp_set_up(int fd);
/* Transfers all bytes over a non-blocking socket. EPEER when the other end is gone. */
pst_status pst_tcp_write(int fd, const void *data, size_t bytes, uint64_t until);
pst_status pst_tcp_read(int fd, void *data, size_t bytes, uint64_t until);
#endif
