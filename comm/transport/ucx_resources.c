/* The resources that UCX can use on this machine, from the library itself. */
#include "base/limit.h"
#include "comm/transport/ucx_choose.h"
#include "comm/transport/version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

/* UCX prints its resources only as text: "# resource 1 : md 1 dev 1 flags -- tcp/lo". */
void pst_ucx_resources_of(const char *info, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (const char *line = info; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        const char *name =
            memmem(line, length, " resource ", 10) ? memmem(line, length, " flags ", 7) : NULL;
        if (!name) continue;
        name += 7;
        name += strcspn(name, " \n"); /* the value of "flags" */
        if (*name != ' ' || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used ? " " : "",
                                 (int)strcspn(name + 1, " \n"), name + 1);
    }
}

const char *pst_ucx_user_tls(void) {
    const char *given = getenv("UCX_TLS");
    return given && *given ? given : NULL;
}

void pst_comm_ucx_resources(char *text, size_t bytes) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    ucp_config_t *config;
    ucp_context_h context;
    char *list = NULL;
    size_t list_bytes = 0;
    text[0] = 0;
    if (pst_limit_tasks(1) < 1) { /* UCX aborts if it cannot start a thread */
        snprintf(text, bytes, "(unknown: cannot start a thread)");
        return;
    }
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_global_opts_set_value("LOG_LEVEL", "fatal"); /* we report failures ourselves, so UCX
                                                            need not */
    ucs_status_t rc = ucp_config_read(NULL, NULL, &config);
    if (rc == UCS_OK && !pst_ucx_user_tls())
        rc = ucp_config_modify(config, "TLS", "all"); /* to UCX, an empty UCX_TLS means no transport
                                                       */
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
