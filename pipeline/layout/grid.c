/* See grid.h. */
#include "pipeline/layout/grid.h"
#include <stdio.h>

/* Appends to the text, truncated to its capacity. */
static void append(char *text, const char *between, const char *format, uint32_t value) {
    uint32_t at = 0;
    while (text[at]) at++;
    if (at) at += (uint32_t)snprintf(text + at, PST_GRID_TEXT - at, "%s", between);
    snprintf(text + at, PST_GRID_TEXT - at, format, value);
}

uint32_t pst_grid_prefix_sums(const uint32_t *degree, uint32_t pipeline, uint32_t *tensor_before) {
    uint32_t most = 0;
    tensor_before[0] = 0;
    for (uint32_t s = 0; s < pipeline; s++) {
        tensor_before[s + 1] = tensor_before[s] + degree[s];
        if (degree[s] > most) most = degree[s];
    }
    return most;
}

static uint32_t least_degree(pst_grid grid) {
    uint32_t least = grid.tensor;
    for (uint32_t s = 0; s < grid.pipeline; s++)
        if (pst_grid_degree(grid, s) < least) least = pst_grid_degree(grid, s);
    return least;
}

const char *pst_grid_text(pst_grid grid, char text[PST_GRID_TEXT]) {
    *text = 0;
    if (pst_grid_lanes(grid) == 1) return text;
    if (grid.pipeline > 1) append(text, " x ", "%u stages", grid.pipeline);
    if (grid.data > 1) append(text, " x ", "%u replicas", grid.data);
    if (!grid.tensor_before && grid.tensor > 1) append(text, " x ", "%u tensor ranks", grid.tensor);
    if (grid.tensor_before) {
        append(text, " x ", "%u", least_degree(grid));
        append(text, " to ", "%u tensor ranks", grid.tensor);
    }
    if (grid.servers)
        append(text, " + ", pst_grid_servers(grid) == 1 ? "%u server" : "%u servers",
               pst_grid_servers(grid));
    return text;
}

const char *pst_grid_place_text(pst_grid grid, uint32_t rank, char text[PST_GRID_TEXT]) {
    pst_grid_place at = pst_grid_at(grid, rank);
    *text = 0;
    if (pst_grid_lanes(grid) == 1) return text;
    if (grid.pipeline > 1) append(text, ", ", "stage %u", at.stage);
    if (at.replica >= grid.data) append(text, ", ", "server %u", at.replica - grid.data);
    else if (grid.data > 1) append(text, ", ", "replica %u", at.replica);
    if (grid.tensor > 1) append(text, ", ", "tensor rank %u", at.tensor);
    return text;
}
