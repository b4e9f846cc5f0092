/* See links.h. */
#include "pipeline/simulate/links.h"
#include "base/grow.h"
#include <stdlib.h>

pst_status pst_links_open(uint32_t n_rank, const uint32_t *host, const double *host_bytes_per_s,
                          pst_links *links) {
    *links = (pst_links){.n_rank = n_rank, .host = host, .host_bytes_per_s = host_bytes_per_s};
    links->out_ns = calloc(3 * (size_t)n_rank + 1, sizeof *links->out_ns);
    links->in_ns = calloc(3 * (size_t)n_rank + 1, sizeof *links->in_ns);
    if (links->out_ns && links->in_ns) return PST_OK;
    pst_links_close(links);
    return pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", n_rank);
}

void pst_links_close(pst_links *l) {
    free(l->out_ns);
    free(l->in_ns);
    free(l->waiting);
    *l = (pst_links){0};
}

pst_status pst_links_add(pst_links *l, const pst_link_message *m) {
    PST_TRY(
        pst_grow(&l->waiting, sizeof *l->waiting, l->n_waiting, &l->room, "for waiting messages"));
    l->waiting[l->n_waiting++] = *m;
    return PST_OK;
}

static int in_order(const void *a, const void *b) {
    const pst_link_message *x = a, *y = b;
    if (x->channel != y->channel) return x->channel < y->channel ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Appends the message's bytes to a link; returns when they are through. */
static uint64_t pass(uint64_t *last_ns, uint64_t at_ns, uint64_t wire_ns) {
    *last_ns = (*last_ns > at_ns ? *last_ns : at_ns) + wire_ns;
    return *last_ns;
}

/* Passes all links at one end, `rank`, of a message. */
static uint64_t pass_end(const pst_links *l, uint64_t *last_ns, uint32_t rank, int apart,
                         const pst_link_message *m) {
    if (!apart) return pass(last_ns + rank, m->at_ns, m->wire_ns);
    uint64_t own = pass(last_ns + l->n_rank + rank, m->at_ns, m->wire_ns), host = l->host[rank],
             wire_ns = m->wire_ns;
    if (l->host_bytes_per_s)
        wire_ns = (uint64_t)((double)m->bytes * 1e9 / l->host_bytes_per_s[rank]);
    uint64_t all = pass(last_ns + 2 * (size_t)l->n_rank + host, m->at_ns, wire_ns);
    return own > all ? own : all;
}

uint32_t pst_links_settle(pst_links *l) {
    uint32_t n = l->n_waiting;
    if (n > 1) qsort(l->waiting, n, sizeof *l->waiting, in_order);
    for (uint32_t i = 0; i < n; i++) {
        pst_link_message *m = &l->waiting[i];
        int apart = l->host && l->host[m->from] != l->host[m->to];
        uint64_t left = pass_end(l, l->out_ns, m->from, apart, m),
                 came = pass_end(l, l->in_ns, m->to, apart, m);
        m->end_ns = (left > came ? left : came) + m->ns - m->wire_ns;
    }
    l->n_waiting = 0;
    return n;
}
