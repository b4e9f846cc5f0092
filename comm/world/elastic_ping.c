/* A thread of a host's launcher that asks the host of rank 0 for a few bytes again and again
 * (elastic_hosts.h), so that a link is missed within seconds, also while no rank uses it. */
#include "base/clock.h"
#include "comm/world/elastic_hosts.h"
#include "comm/world/elastic_wire.h"
#include <time.h>

static _Atomic uint64_t heard_ns;

static uint32_t first_host(const pst_elastic_page *page) {
    const uint32_t epoch = atomic_load(&page->epoch);
    return pst_elastic_host_of(page, page->member[epoch].process[0]);
}

/* Reads from the next host for a while: the best of some tries counts, because ranks start at the
 * same time. */
static void measure(pst_elastic_memory *m) {
    enum { TRIES = 4, BYTES = 1 << 20 };
    static uint8_t page[BYTES];
    _Static_assert(sizeof(pst_elastic_page) >= BYTES, "less is there to read");
    const pst_elastic_range range = {.process = PST_ELASTIC_PAGE, .bytes = sizeof page};
    pst_elastic_hosts *h = &m->page->hosts;
    uint64_t best = 0;
    for (int i = 0; i <= TRIES; i++) { /* the first try connects */
        const uint64_t began = pst_monotonic_ns();
        if (pst_elastic_fetch(m, (h->own + 1) % h->n, &range, page) != PST_OK) break;
        const uint64_t ns = pst_monotonic_ns() - began + 1;
        const uint64_t rate = (uint64_t)((double)sizeof page * 1e9 / (double)ns);
        if (i && rate > best) best = rate;
    }
    pst_elastic_memory_close(m);
    atomic_store(&h->bytes_per_s, best);
}

static void *ping(void *arg) {
    static pst_elastic_memory m;
    static const pst_elastic_range range = {.process = PST_ELASTIC_PAGE, .bytes = sizeof(uint64_t)};
    const struct timespec pause = {.tv_nsec = PST_ELASTIC_PING_MS * 1000000L};
    uint64_t answer;
    m.page = arg;
    m.limit_ns = UINT64_C(1000000000);
    if (m.page->hosts.n > 1) measure(&m);
    atomic_store(&heard_ns, pst_monotonic_ns());
    for (;; nanosleep(&pause, NULL)) {
        const uint32_t first = first_host(m.page);
        const int here = first == m.page->hosts.own;
        if (here || pst_elastic_fetch(&m, first, &range, &answer) == PST_OK)
            atomic_store(&heard_ns, pst_monotonic_ns());
        else pst_elastic_memory_close(&m);
    }
    return NULL;
}

pst_status pst_elastic_ping(pst_elastic_page *page) {
    atomic_store(&heard_ns, pst_monotonic_ns());
    if (pst_elastic_thread(ping, page)) return PST_OK;
    return pst_fail(PST_ENOMEM, "cannot start the thread that watches the other hosts");
}

uint64_t pst_elastic_silence(const pst_elastic_page *page, uint32_t *host) {
    const uint64_t heard = atomic_load(&heard_ns), now = pst_monotonic_ns();
    *host = first_host(page);
    return *host == page->hosts.own || now < heard ? 0 : now - heard;
}
