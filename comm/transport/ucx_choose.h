/* Chooses UCX's transports for a job, unless the user sets UCX_TLS: shared memory within a host;
 * between hosts RDMA if all ranks have it, else TCP. */
#ifndef PST_COMM_TRANSPORT_UCX_CHOOSE_H
#define PST_COMM_TRANSPORT_UCX_CHOOSE_H
#include "base/world.h"

enum {
    PST_UCX_RC = 1,
    PST_UCX_DC = 2,
    PST_UCX_UD = 4,
    PST_UCX_USER_TLS = 8 /* the user has set UCX_TLS: compatible with all kinds */
};

/* The RDMA resources of a rank. */
typedef struct {
    uint32_t kinds;  /* PST_UCX_ bits; 0: no RDMA */
    char device[48]; /* the first device, as in UCX_NET_DEVICES: "mlx5_0:1" */
    char why[128];   /* why there is no RDMA */
} pst_ucx_rdma;

/* Extracts UCX's resources from the output of ucp_context_print_info, as "self/memory tcp/eth0
 * rc_mlx5/mlx5_0:1". */
void pst_ucx_resources_of(const char *info, char *text, size_t bytes);
/* The RDMA resources in such a list. UCX lists only ports that are up. RDMA needs a reliable
 * transport and memory that may be locked (locked 1). */
void pst_ucx_rdma_of(const char *resources, int locked, pst_ucx_rdma *out);
/* The value of UCX_TLS; NULL if it is unset or empty. */
const char *pst_ucx_user_tls(void);
/* The RDMA resources that UCX finds in this process now. */
void pst_ucx_rdma_here(pst_ucx_rdma *out);
/* Makes a value for UCX_TLS. local: 1: all ranks are on one host; rdma: the kinds of RDMA that all
 * ranks have; cuda: 1: include transports for GPU memory. */
void pst_ucx_transports(int local, uint32_t rdma, int cuda, char *text, size_t bytes);
/* Returns whether a value of UCX_TLS has TCP and no RDMA. */
int pst_ucx_only_tcp(const char *tls);
/* For ranks on several hosts. *common: kinds of RDMA that all ranks have; *why (PST_UCX_WHY bytes):
 * a rank that lacks RDMA, for messages. Collective, with one fence. */
enum { PST_UCX_WHY = 256 };
pst_status pst_ucx_agree(pst_world *w, const pst_ucx_rdma *mine, uint32_t *common, char *why);
#endif
