/* Which of UCX's transports a job uses, where the user does not say it (UCX_TLS): within a host
 * shared memory, between hosts RDMA where every rank has it, else TCP. */
#ifndef PST_COMM_TRANSPORT_UCX_CHOOSE_H
#define PST_COMM_TRANSPORT_UCX_CHOOSE_H
#include "base/world.h"

enum {
    PST_UCX_RC = 1,
    PST_UCX_DC = 2,
    PST_UCX_UD = 4,
    PST_UCX_GIVEN = 8 /* by UCX_TLS: any will do */
};

/* What a rank has for RDMA. */
typedef struct {
    uint32_t kinds;  /* bits above; 0: it has to go without */
    char device[48]; /* as UCX_NET_DEVICES has it, "mlx5_0:1": the first */
    char why[128];   /* it has to */
} pst_ucx_rdma;

/* What UCX lists of itself (ucp_context_print_info), as "self/memory tcp/eth0 rc_mlx5/mlx5_0:1". */
void pst_ucx_resources_of(const char *info, char *text, size_t bytes);
/* Of such a list: ports that are up, for UCX lists no others. RDMA needs a reliable transport, and
 * memory that may be locked: 0 locked: it may not. */
void pst_ucx_rdma_of(const char *resources, int locked, pst_ucx_rdma *out);
/* UCX_TLS, where it says something: NULL where it is unset or empty. */
const char *pst_ucx_given(void);
/* Of this process, as UCX finds it now. */
void pst_ucx_rdma_here(pst_ucx_rdma *out);
/* For UCX_TLS. local: all ranks are on one host; rdma: what all of them have. */
void pst_ucx_transports(int local, uint32_t rdma, int cuda, char *text, size_t bytes);
/* Collective, with one fence, where the ranks are on several hosts: *common is what all have, *why
 * (PST_UCX_WHY bytes) says whose lack it is. */
enum { PST_UCX_WHY = 256 };
pst_status pst_ucx_agree(pst_world *w, const pst_ucx_rdma *mine, uint32_t *common, char *why);
#endif
