/* Which of UCX's transports a job uses, unless the user sets UCX_TLS: shared memory within a host;
 * between hosts RDMA if all ranks have it, else TCP. */
#ifndef PST_COMM_TRANSPORT_UCX_CHOOSE_H
#define PST_COMM_TRANSPORT_UCX_CHOOSE_H
#include "base/world.h"

enum {
    PST_UCX_RC = 1,
    PST_UCX_DC = 2,
    PST_UCX_UD = 4,
    PST_UCX_USER_TLS = 8 /* the user has set UCX_TLS: compatible with any */
};

/* The RDMA resources of a rank. */
typedef struct {
    uint32_t kinds;  /* bits above; 0: no RDMA */
    char device[48]; /* as in UCX_NET_DEVICES, "mlx5_0:1": the first one */
    char why[128];   /* why there is no RDMA */
} pst_ucx_rdma;

/* UCX's resources from its own listing (ucp_context_print_info), as "self/memory tcp/eth0
 * rc_mlx5/mlx5_0:1". */
void pst_ucx_resources_of(const char *info, char *text, size_t bytes);
/* The RDMA resources in such a list. UCX lists only ports that are up. RDMA needs a reliable
 * transport, and memory that may be locked; locked: whether it may. */
void pst_ucx_rdma_of(const char *resources, int locked, pst_ucx_rdma *out);
/* UCX_TLS; NULL if it is unset or empty. */
const char *pst_ucx_user_tls(void);
/* The RDMA resources of this process, as UCX finds them now. */
void pst_ucx_rdma_here(pst_ucx_rdma *out);
/* Makes a value for UCX_TLS. local: all ranks are on one host; rdma: the kinds that all of them
 * have. */
void pst_ucx_transports(int local, uint32_t rdma, int cuda, char *text, size_t bytes);
/* Collective, with one fence, when the ranks are on several hosts: *common is what all have, *why
 * (PST_UCX_WHY bytes) names a rank that lacks RDMA. */
enum { PST_UCX_WHY = 256 };
pst_status pst_ucx_agree(pst_world *w, const pst_ucx_rdma *mine, uint32_t *common, char *why);
#endif
