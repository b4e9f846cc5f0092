/* See version.h. */
#include "comm/transport/version.h"
#include "base/limit.h"
#include "comm/transport/ucx_choose.h"
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

const char *pst_comm_ucx_version(void) { return ucp_get_version_string(); }

/* "OpenPMIx 4.2.2 (PMIx Standard: ...)" -> "4.2.2" */
const char *pst_comm_pmix_version(void) {
    static char text[32];
    const char *all = PMIx_Get_version(), *from = strpbrk(all, "0123456789");
    if (!from) return all;
    if (!*text) snprintf(text, sizeof text, "%.*s", (int)strcspn(from, " ,("), from);
    return text;
}

void pst_comm_ucx_resources(char *text, size_t bytes) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    ucp_config_t *config;
    ucp_context_h context;
    char *list = NULL;
    size_t list_bytes = 0;
    text[0] = 0;
    if (pst_limit_tasks(1) < 1) { /* UCX aborts where it gets no thread */
        snprintf(text, bytes, "(not asked: no thread can be started)");
        return;
    }
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_global_opts_set_value("LOG_LEVEL", "fatal"); /* what fails is told here */
    ucs_status_t rc = ucp_config_read(NULL, NULL, &config);
    if (rc == UCS_OK && !pst_ucx_given())
        rc = ucp_config_modify(config, "TLS", "all"); /* empty, to UCX, is none */
    if (rc == UCS_OK) {
        rc = ucp_init(&params, config, &context);
        ucp_config_release(config);
    }
    if (rc != UCS_OK) {
        snprintf(text, bytes, "(%s)", ucs_status_string(rc));
        return;
    }
    FILE *out = open_memstream(&list, &list_bytes);
    if (out) {
        ucp_context_print_info(context, out);
        if (!fclose(out)) pst_ucx_resources_of(list, text, bytes);
        free(list);
    }
    ucp_cleanup(context);
}

void pst_comm_ucx_between(char *text, size_t bytes) {
    pst_ucx_rdma rdma;
    pst_ucx_rdma_here(&rdma);
    if (rdma.kinds & PST_UCX_GIVEN) snprintf(text, bytes, "as the environment says, %s", rdma.why);
    else if (rdma.kinds)
        snprintf(text, bytes, "RDMA on %s, where all hosts of a job have it", rdma.device);
    else snprintf(text, bytes, "TCP: %s", rdma.why);
}
