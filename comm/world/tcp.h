/* The rendezvous behind world `tcp`: ranks that find each other through rank 0's address, prove
 * that they know the job's secret, and stay connected to rank 0. Nothing that a stranger sends is
 * looked at but the fixed-size greeting. */
#ifndef PST_COMM_WORLD_TCP_H
#define PST_COMM_WORLD_TCP_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct {
    uint32_t rank, size;
    const char *address, *port; /* where rank 0 listens: a name or number, and a port */
    const char *variables;      /* what says so, for messages; NULL: MASTER_ADDR, MASTER_PORT */
    const char *secret;         /* at least PST_SECRET_LEAST characters */
    uint32_t seconds;           /* how long to wait for the others */
    int listener; /* rank 0: a socket that listens there already, taken over; 0: none */
} pst_tcp_job;

/* EINPUT when there is no secret that several ranks could have. */
pst_status pst_tcp_check_secret(const pst_tcp_job *job);
/* Addresses that reach only this very host. */
int pst_tcp_is_loopback(const struct sockaddr *at);
/* "NAME:PORT", behind it the address that a name stands for, and whether it is loopback. Returns
 * text. */
enum { PST_TCP_PLACE = 200 };
const char *pst_tcp_place(const pst_tcp_job *job, const struct sockaddr *at, socklen_t bytes,
                          char text[PST_TCP_PLACE]);
/* The same of the address that a socket has here. */
const char *pst_tcp_own_place(const pst_tcp_job *job, int fd, char text[PST_TCP_PLACE]);
/* Whoever has called, set up as below; *fd is -1 when it has gone again. ENOMEM when there is no
 * room for it; `who` says so. */
pst_status pst_tcp_accept(int listener, const char *who, int *fd);

/* Blocks until all ranks are there. fd: [size], the caller's; rank 0 receives a connected socket to
 * every other rank, the others one to rank 0; -1 elsewhere. EINPUT: another secret or job size
 * there, a rank that is there twice, an address that cannot be; EPEER: some did not come in time
 * (names them). Nothing stays open on failure. */
pst_status pst_tcp_join(const pst_tcp_job *job, int *fd);

/* tcp_reach.c. Listens at an address and port; port "0" becomes the one that was free. */
pst_status pst_tcp_listen(const char *address, char port[8], int *listener);
/* Connects to whoever shall listen at the job's address, within so many seconds, or until no
 * address has had a route for a few; `who` says so in messages. EPEER. */
pst_status pst_tcp_reach(const pst_tcp_job *job, uint32_t seconds, const char *who, int *fd);
void pst_tcp_pause(void); /* a moment, before the next try */

/* tcp_socket.c. `until`: pst_monotonic_ns(), PST_NEVER for no limit. Milliseconds until then, for
 * poll(): at most a minute, -1 for no limit. Waiting until a socket may be read or written (poll's
 * events): EPEER when the time is over. */
int pst_tcp_milliseconds(uint64_t until);
pst_status pst_tcp_wait(int fd, short events, uint64_t until);
/* Non-blocking, without delay, and a host that vanishes is noticed after about 25 s. */
void pst_tcp_set_up(int fd);
/* Whole buffers over a non-blocking socket. EPEER when the other end is gone. */
pst_status pst_tcp_write(int fd, const void *data, size_t bytes, uint64_t until);
pst_status pst_tcp_read(int fd, void *data, size_t bytes, uint64_t until);
#endif
