/* Which ranks share a host, as numbers, for code that works by host
 * (comm/collective/collective.h). */
#include "comm/world/world.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_world_hosts(pst_world *w, uint32_t *host) {
    static const char key[] = "penstock.host";
    memset(host, 0, w->size * sizeof *host);
    if (w->local_size == w->size) return PST_OK;
    PST_TRY(w->ops->put(w, key, w->host, sizeof w->host));
    PST_TRY(w->ops->fence(w));
    char(*name)[sizeof w->host] = calloc(w->size, sizeof *name);
    pst_status status =
        name ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the names of %u hosts", w->size);
    for (uint32_t r = 0; status == PST_OK && r < w->size; r++) {
        void *value = NULL;
        size_t bytes = 0;
        status = w->ops->get(w, r, key, &value, &bytes);
        if (status == PST_OK) memcpy(name[r], value, bytes < sizeof *name ? bytes : sizeof *name);
        free(value);
        host[r] = r;
        for (uint32_t i = r; i-- > 0;)
            if (!memcmp(name[i], name[r], sizeof *name)) host[r] = host[i];
    }
    free(name);
    return status;
}
