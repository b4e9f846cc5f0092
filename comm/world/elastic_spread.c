/* The order in which processes of several hosts become ranks, so that replicas of a stage are on
 * different hosts and the loss of one host leaves a copy of all state (elastic.h). */
#include "comm/world/elastic_hosts.h"
#include <string.h>

/* Takes the next `n` processes of a host that are still there. 0: it has fewer. */
static int take(const pst_elastic_page *page, uint32_t host, uint8_t *is_left, uint32_t n,
                uint32_t *to) {
    const pst_elastic_host *h = &page->hosts.host[host];
    uint32_t found = 0;
    for (uint32_t i = h->first; i < h->first + h->n && found < n; i++)
        if (is_left[i]) to[found++] = i;
    for (uint32_t i = 0; found == n && i < n; i++) is_left[to[i]] = 0;
    return found == n;
}

/* Groups of `tensor` processes of a host, of one host after the other, again and again; then what
 * is left. */
void pst_elastic_spread(const pst_elastic_page *page, const uint8_t *alive,
                        pst_elastic_members *m) {
    const pst_elastic_hosts *h = &page->hosts;
    const uint32_t group = h->copies.tensor;
    uint8_t is_left[PST_ELASTIC_RANKS] = {0};
    uint32_t n = 0;
    if (!h->n || h->copies.data < 2) return;
    memcpy(is_left, alive, page->n);
    for (uint32_t before = UINT32_MAX; n != before;) {
        before = n;
        for (uint32_t i = 0; i < h->n && n + group <= m->n_rank; i++)
            if (take(page, i, is_left, group, m->process + n)) n += group;
    }
    for (uint32_t i = 0; i < page->n && n < m->n_rank; i++)
        if (is_left[i]) m->process[n++] = i;
}
