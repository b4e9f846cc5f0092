/* See lanes.h. */
#include "pipeline/lanes.h"
#include <stdlib.h>

pst_status pst_lanes_open(uint32_t n_rank, const uint32_t *host, pst_lanes *lanes) {
    *lanes = (pst_lanes){.n_rank = n_rank, .host = host};
    lanes->out_ns = calloc(2 * (size_t)n_rank + 1, sizeof *lanes->out_ns);
    lanes->in_ns = calloc(2 * (size_t)n_rank + 1, sizeof *lanes->in_ns);
    if (lanes->out_ns && lanes->in_ns) return PST_OK;
    pst_lanes_close(lanes);
    return pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", n_rank);
}

void pst_lanes_close(pst_lanes *l) {
    free(l->out_ns), free(l->in_ns), free(l->waiting);
    *l = (pst_lanes){0};
}

pst_status pst_lanes_add(pst_lanes *l, const pst_lane_message *m) {
    if (l->n_waiting == l->room) {
        uint32_t room = l->room ? 2 * l->room : 16;
        pst_lane_message *more = realloc(l->waiting, room * sizeof *more);
        if (!more) return pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", l->n_rank);
        l->waiting = more, l->room = room;
    }
    l->waiting[l->n_waiting++] = *m;
    return PST_OK;
}

static int in_order(const void *a, const void *b) {
    const pst_lane_message *x = a, *y = b;
    if (x->channel != y->channel) return x->channel < y->channel ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Its bytes come last at an end; returns when they are through. */
static uint64_t pass(uint64_t *last_ns, const pst_lane_message *m) {
    *last_ns = (*last_ns > m->at_ns ? *last_ns : m->at_ns) + m->wire_ns;
    return *last_ns;
}

uint32_t pst_lanes_settle(pst_lanes *l) {
    uint32_t n = l->n_waiting;
    if (n > 1) qsort(l->waiting, n, sizeof *l->waiting, in_order);
    for (uint32_t i = 0; i < n; i++) {
        pst_lane_message *m = &l->waiting[i];
        int apart = l->host && l->host[m->from] != l->host[m->to];
        uint64_t left = pass(l->out_ns + (apart ? l->n_rank + l->host[m->from] : m->from), m);
        uint64_t came = pass(l->in_ns + (apart ? l->n_rank + l->host[m->to] : m->to), m);
        m->end_ns = (left > came ? left : came) + m->ns - m->wire_ns;
    }
    l->n_waiting = 0;
    return n;
}
