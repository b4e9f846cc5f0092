/* Which communication libraries are loaded, and which resources they find on this machine. */
#ifndef PST_COMM_TRANSPORT_VERSION_H
#define PST_COMM_TRANSPORT_VERSION_H
#include <stddef.h>

/* Static text, never NULL; filled on the first call. One thread at a time. */
const char *pst_comm_ucx_version(void);
const char *pst_comm_pmix_version(void);
/* Writes the resources that UCX can use on this machine, as "self/memory0 tcp/lo posix/memory"; if
 * UCX cannot start, the reason in parentheses. */
void pst_comm_ucx_resources(char *text, size_t bytes);
/* Writes which network messages between hosts would use, and why: "TCP: UCX finds no InfiniBand or
 * RoCE device". */
void pst_comm_ucx_inter_host(char *text, size_t bytes);
#endif
