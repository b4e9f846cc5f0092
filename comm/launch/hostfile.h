/* Host files, as Open MPI has them: a line per host, `HOST [slots=N]`, # begins a comment; a host
 * that comes again adds to its slots. */
#ifndef PST_COMM_LAUNCH_HOSTFILE_H
#define PST_COMM_LAUNCH_HOSTFILE_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
    char name[256];       /* as written, "user@" included */
    char address[64];     /* numeric; "" before pst_hosts_resolve */
    uint32_t slots, line; /* line: of its first mention */
    int is_here;          /* the address is one of this machine's */
} pst_host;

typedef struct {
    char path[4096];
    uint32_t n, slots; /* slots: of all hosts */
    pst_host *host;    /* [n] in the order of the file */
} pst_hosts;

/* EINPUT with file and line for what is no host file; free with pst_hosts_close. */
pst_status pst_hosts_read(const char *path, pst_hosts *hosts);
/* Finds the addresses of the first n hosts, for eight seconds at most. EINPUT: a name without an
 * address, or, with several hosts, one that resolves to loopback, where the others would meet
 * themselves, and two names of one machine. */
pst_status pst_hosts_resolve(pst_hosts *hosts, uint32_t n);
void pst_hosts_close(pst_hosts *hosts);
#endif
