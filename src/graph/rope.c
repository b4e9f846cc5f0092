/* The names of the scalings of rotary positions. */
#include "graph/graph.h"
#include <string.h>

static const char *const scalings[] = {"none", "linear", "llama3", "yarn"};
enum { N_SCALING = sizeof scalings / sizeof *scalings };

const char *pst_rope_scaling_name(pst_rope_scaling scaling) {
    return (uint32_t)scaling < N_SCALING ? scalings[scaling] : "unknown";
}

pst_status pst_rope_scaling_find(const char *name, pst_rope_scaling *scaling) {
    for (int i = 0; i < N_SCALING; i++)
        if (!strcmp(name, scalings[i])) {
            *scaling = (pst_rope_scaling)i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT,
                    "unknown scaling of rotary positions '%.40s' (possible: none, linear, llama3, "
                    "yarn)",
                    name);
}
