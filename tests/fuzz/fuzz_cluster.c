/* Any bytes as a cluster file: an error that names the file, or devices that are what the file may
 * say. */
#include "pipeline/cluster/cluster.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_cluster *c = NULL;
    if (pst_cluster_parse((const char *)data, size, "fuzz", &c) != PST_OK) {
        expect(c == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
        return 0;
    }
    expect(c->n_device >= 1 && c->n_device <= PST_CLUSTER_MAX_DEVICES && c->n_node >= 1);
    for (uint32_t i = 0; i < c->n_device; i++)
        expect(c->device[i].speed > 0 && c->device[i].speed <= 1000 &&
               c->device[i].node < c->n_node);
    pst_cluster_close(c);
    return 0;
}
