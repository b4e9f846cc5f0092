/* Host files in Open MPI's format: one line per host, `HOST [slots=N]`; # begins a comment. If a
 * host appears again, its slots add up. */
#ifndef PST_COMM_LAUNCH_HOSTFILE_H
#define PST_COMM_LAUNCH_HOSTFILE_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
    char name[256];       /* as in the host file, with "user@" */
    char address[64];     /* numeric; "" before pst_hosts_resolve */
    uint32_t slots, line; /* line: number of the first line that names the host */
    int is_here;          /* 1: the address belongs to this machine */
} pst_host;

typedef struct {
    char path[4096];
    uint32_t n, slots; /* hosts; sum of their slots */
    pst_host *host;    /* [n] in the order of the file */
} pst_hosts;

/* Reads a host file; free with pst_hosts_close. EINPUT: the message names file and line. */
pst_status pst_hosts_read(const char *path, pst_hosts *hosts);
/* Resolves the addresses of the first n hosts; takes at most eight seconds. EINPUT: a name has no
 * address; with several hosts: a name resolves to loopback, or two names have the same address. */
pst_status pst_hosts_resolve(pst_hosts *hosts, uint32_t n);
void pst_hosts_close(pst_hosts *hosts);
#endif
