/* See layers.h. */
#include "graph/layers.h"
#include <string.h>

/* Bytes of the name up to its first number; 0: it has none. */
static size_t prefix_of(const char *name) {
    for (const char *at = strchr(name, '.'); at; at = strchr(at + 1, '.')) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits && (at[1 + digits] == '.' || !at[1 + digits]))
            return (size_t)(at + 1 - name) + digits;
    }
    return 0;
}

void pst_graph_layers(const pst_graph *g, uint32_t *layer) {
    const char *last = NULL;
    size_t bytes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_node; i++) {
        const char *name = g->node[i].name;
        const size_t own = prefix_of(name);
        layer[i] = PST_NONE;
        if (!own) continue;
        n += !last || own != bytes || strncmp(name, last, own) != 0;
        last = name;
        bytes = own;
        layer[i] = n - 1;
    }
}
