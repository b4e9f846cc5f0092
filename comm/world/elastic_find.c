/* Which state an epoch of an elastic job on several hosts begins with (elastic_hosts.h): rank 0
 * reads the pages of all hosts that are not lost. */
#include "comm/world/elastic_hosts.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* [process][entry] as on the pages; of lost hosts all 0. */
typedef pst_elastic_state state_table[PST_ELASTIC_RANKS][PST_ELASTIC_FILES];

static int same_numbers(pst_elastic_state (*a)[PST_ELASTIC_FILES],
                        pst_elastic_state (*b)[PST_ELASTIC_FILES], uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++)
            if (atomic_load(&a[i][k].number) != atomic_load(&b[i][k].number)) return 0;
    return 1;
}

/* The states of a host's processes. A process without a rank may write while they are read: then
 * once more. */
static pst_status read_states(pst_elastic_memory *m, uint32_t host, state_table *table) {
    const pst_elastic_page *page = m->page;
    const pst_elastic_host *h = &page->hosts.host[host];
    pst_elastic_state(*const to)[PST_ELASTIC_FILES] = *table + h->first;
    const pst_elastic_range range = {.process = PST_ELASTIC_PAGE,
                                     .from = offsetof(pst_elastic_page, state) +
                                             h->first * sizeof page->state[0],
                                     .bytes = h->n * sizeof page->state[0]};
    if (host == page->hosts.own) {
        memcpy(to, page->state + h->first, range.bytes);
        return PST_OK;
    }
    pst_elastic_state(*again)[PST_ELASTIC_FILES] = malloc(range.bytes);
    if (!again) return pst_fail(PST_ENOMEM, "no memory for the states of host %s", h->name);
    pst_status status = pst_elastic_fetch(m, host, &range, to);
    for (int same = 0; status == PST_OK && !same;) {
        memcpy(again, to, range.bytes);
        status = pst_elastic_fetch(m, host, &range, to);
        same = status == PST_OK && same_numbers(again, to, h->n);
    }
    free(again);
    return status;
}

/* The run's folder, if this host knows it. */
static pst_status read_folder(pst_elastic_memory *m, uint32_t host, pst_elastic_found *f) {
    uint32_t has = atomic_load(&m->page->has_folder);
    if (host != m->page->hosts.own) {
        const pst_elastic_range flag = {.process = PST_ELASTIC_PAGE,
                                        .from = offsetof(pst_elastic_page, has_folder),
                                        .bytes = sizeof has},
                                name = {.process = PST_ELASTIC_PAGE,
                                        .from = offsetof(pst_elastic_page, folder),
                                        .bytes = sizeof f->folder};
        PST_TRY(pst_elastic_fetch(m, host, &flag, &has));
        if (has) PST_TRY(pst_elastic_fetch(m, host, &name, f->folder));
    } else if (has) memcpy(f->folder, m->page->folder, sizeof f->folder);
    f->has_folder |= has;
    return PST_OK;
}

static int has_state(state_table *table, uint32_t process, uint32_t epoch, uint64_t number) {
    pst_elastic_state *s = &(*table)[process][number % PST_ELASTIC_FILES];
    return atomic_load(&s->number) == number && s->epoch == epoch;
}

/* A rank other than `rank` with the same part that has the state; `rank` itself if it has;
 * UINT32_MAX: none. */
static uint32_t holder(const pst_elastic_page *page, state_table *table, uint32_t rank,
                       uint32_t epoch, uint64_t number) {
    const pst_elastic_copies copies = page->hosts.copies;
    const pst_elastic_members *m = &page->member[epoch];
    const uint32_t lanes = copies.data * copies.tensor,
                   first = rank / lanes * lanes + rank % copies.tensor;
    if (has_state(table, m->process[rank], epoch, number)) return rank;
    for (uint32_t k = 0; k < copies.data; k++) {
        const uint32_t other = first + k * copies.tensor;
        if (other < m->n_rank && has_state(table, m->process[other], epoch, number)) return other;
    }
    return UINT32_MAX;
}

/* 1: of every part of the epoch's state some rank has the state. */
static int is_complete(const pst_elastic_page *page, state_table *table, uint32_t epoch,
                       uint64_t number) {
    for (uint32_t r = 0; r < page->member[epoch].n_rank; r++)
        if (holder(page, table, r, epoch, number) == UINT32_MAX) return 0;
    return 1;
}

/* Which ranks' files have the state that was found. */
static void list_files(const pst_elastic_page *page, state_table *table, pst_elastic_found *f) {
    const pst_elastic_members *m = &page->member[f->source_epoch];
    const uint32_t k = f->source % PST_ELASTIC_FILES;
    int noted = 0;
    for (uint32_t r = 0; r < m->n_rank; r++) {
        const pst_elastic_state *s = &(*table)[m->process[r]][k];
        f->file[r] = UINT32_MAX;
        if (!has_state(table, m->process[r], f->source_epoch, f->source)) continue;
        f->file[r] = s->file;
        if (!noted++) memcpy(f->note, s->note, sizeof f->note);
    }
}

/* The newest state that is complete, and the newest of which a part is there. */
static void choose(const pst_elastic_page *page, state_table *table, pst_elastic_found *f) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) {
            pst_elastic_state *s = &(*table)[i][k];
            const uint64_t number = atomic_load(&s->number);
            if (number > last) {
                last = number;
                memcpy(f->last_note, s->note, sizeof f->last_note);
            }
            if (number <= f->source || !is_complete(page, table, s->epoch, number)) continue;
            f->source = number;
            f->source_epoch = s->epoch;
        }
    f->has_last = last != 0;
    if (f->source) list_files(page, table, f);
}

pst_status pst_elastic_find(pst_elastic_memory *m, pst_elastic_found *found) {
    state_table *table = calloc(1, sizeof *table);
    pst_status status = table ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the states of hosts");
    for (uint32_t i = 0; status == PST_OK && i < m->page->hosts.n; i++) {
        if (atomic_load(&m->page->hosts.host[i].lost_in)) continue;
        status = read_states(m, i, table);
        if (status == PST_OK) status = read_folder(m, i, found);
    }
    if (status == PST_OK) choose(m->page, table, found);
    free(table);
    return status;
}

pst_status pst_elastic_agree(pst_elastic_memory *m, pst_world *world, pst_elastic_found *found) {
    static const char key[] = "penstock.elastic.found";
    void *value = NULL;
    size_t bytes = 0;
    *found = (pst_elastic_found){0};
    if (!atomic_load(&m->page->epoch)) return PST_OK;
    if (!world->rank) PST_TRY(pst_elastic_find(m, found));
    if (!world->rank) PST_TRY(world->ops->put(world, key, found, sizeof *found));
    PST_TRY(world->ops->fence(world));
    PST_TRY(world->ops->get(world, 0, key, &value, &bytes));
    if (bytes == sizeof *found) memcpy(found, value, bytes);
    free(value);
    if (!found->has_folder || atomic_load(&m->page->has_folder)) return PST_OK;
    memcpy(m->page->folder, found->folder, sizeof found->folder);
    atomic_store(&m->page->has_folder, 1);
    return PST_OK;
}
