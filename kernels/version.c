/* See version.h. */
#include "kernels/version.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

const char *pst_kernels_onednn_version(void) {
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    if (!*text) snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}
