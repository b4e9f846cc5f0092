/* See version.h. */
#include "comm/version.h"
#include "base/limit.h"
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

/* UCX tells its resources in a printed list only: "# resource 1 : md 1 dev 1 flags -- tcp/lo". */
static void read_resources(FILE *list, char *text, size_t bytes) {
    char line[256];
    size_t used = 0;
    while (fgets(line, sizeof line, list)) {
        const char *name = strstr(line, " resource ") ? strstr(line, "-- ") : NULL;
        if (!name || used >= bytes) continue;
        name += 3;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used ? " " : "", (int)strcspn(name, " \n"), name);
    }
}

void pst_comm_ucx_resources(char *text, size_t bytes) {
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_config_t *config;
    ucp_context_h context;
    char *list = NULL;
    size_t list_bytes = 0;
    text[0] = 0;
    if (pst_limit_tasks(1) < 1) { /* UCX aborts where it gets no thread */
        snprintf(text, bytes, "(not asked: no thread can be started)");
        return;
    }
    if (!getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "fatal"); /* what fails is told here */
    ucs_status_t rc = ucp_config_read(NULL, NULL, &config);
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
        fclose(out);
        FILE *in = list_bytes ? fmemopen(list, list_bytes, "r") : NULL;
        if (in) read_resources(in, text, bytes), fclose(in);
        free(list);
    }
    ucp_cleanup(context);
}
