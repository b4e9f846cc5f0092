/* See version.h. */
#include "comm/transport/version.h"
#include "comm/transport/ucx_choose.h"
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

const char *pst_comm_ucx_version(void) { return ucp_get_version_string(); }

/* "OpenPMIx 4.2.2 (PMIx Standard: ...)" -> "4.2.2" */
const char *pst_comm_pmix_version(void) {
    static char text[32];
    const char *all = PMIx_Get_version(), *from = strpbrk(all, "0123456789");
    if (!from) return all;
    if (!*text) snprintf(text, sizeof text, "%.*s", (int)strcspn(from, " ,("), from);
    return text;
}

void pst_comm_ucx_inter_host(char *text, size_t bytes) {
    pst_ucx_rdma rdma;
    pst_ucx_rdma_here(&rdma);
    if (rdma.kinds & PST_UCX_USER_TLS) snprintf(text, bytes, "set by the user: %s", rdma.why);
    else if (rdma.kinds)
        snprintf(text, bytes, "RDMA on %s, if all hosts of the job have it", rdma.device);
    else snprintf(text, bytes, "TCP: %s", rdma.why);
}
