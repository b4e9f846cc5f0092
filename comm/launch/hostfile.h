/* Host files in Open MPI's format: one line per host, `HOST [slots=N]`; # begins a comment. If a
 * host appears again, its slots add up. */
#ifndef PST_COMM_LAUNCH_HOSTFILE_H
#define PST_COMM_LAUNCH_HOSTFILE_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
    char name[256];       /* as written in the host file, with "user@" */
    char address[64];     /* numeric; "" before pst_hosts_resolve */
    uint32_t slots, line; /* line: where it appears first */
    int is_here;          /* the address belongs to this machine */
} pst_host;

typedef struct {
    char path[4096];
    uint32_t n, slots; /* hosts; sum of their slots */
    pst_host *host;    /* [n] in the order of the file */
} pst_hosts;

/* EINPUT names file and line of a syntax error; free with pst_hosts_close. */
pst_status pst_hosts_read(const char *path, pst_hosts *hosts);
/* Finds the addresses of the first n hosts, within eight seconds. EINPUT: a name without an
 * address; with several hosts, a name that resolves to loopback; two names with the same
 * address. */
pst_status pst_hosts_resolve(pst_hosts *hosts, uint32_t n);
void pst_hosts_close(pst_hosts *hosts);
#endif
