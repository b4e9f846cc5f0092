/* Any bytes as another planner's workload, or as a plan of one: an error that names the file, or a
 * graph that is planned for, and a plan that is judged. */
#include "partition/foreign/import.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static void as_plan(const char *data, size_t size) {
    const char *graph = "node1 -- a -- forward_compute_time=1, backward_compute_time=1, "
                        "activation_size=1, parameter_size=1\n"
                        "node2 -- b -- forward_compute_time=1, backward_compute_time=1, "
                        "activation_size=1, parameter_size=1\n"
                        "\tnode1 -- node2\n";
    pst_import *im = NULL;
    pst_import_plan plan = {0};
    expect(pst_import_parse(graph, strlen(graph), "graph", &im) == PST_OK);
    im->kind[0].count = 2;
    im->machines = 2;
    im->bandwidth = im->between = 1;
    im->compression = 1;
    pst_status status = pst_import_read_plan(im, data, size, "fuzz", &plan);
    expect(status == PST_OK ? plan.objective >= 0 : strncmp(pst_error(), "fuzz:", 5) == 0);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_import *im = NULL;
    pst_import_plan plan = {0};
    as_plan((const char *)data, size);
    if (pst_import_parse((const char *)data, size, "fuzz", &im) != PST_OK) {
        expect(im == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
        return 0;
    }
    for (uint32_t k = 0; k < im->n_kind; k++)
        if (im->kind[k].count > 3 || im->format == PST_IMPORT_PIPEDREAM) im->kind[k].count = 3;
    if (im->format == PST_IMPORT_PIPEDREAM) im->bandwidth = 1e9;
    if (im->tensor && im->tensor->devices > 8) im->tensor->devices = 8;
    pst_status status = pst_import_solve(im, 0.2, &plan); /* has its plan judged */
    expect(status != PST_EINTERNAL);
    expect(status != PST_OK || plan.lower_bound <= plan.objective);
    pst_import_plan_close(&plan);
    pst_import_close(im);
    return 0;
}
