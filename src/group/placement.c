/* See placement.h. */
#include "group/placement.h"
#include "backends/machine.h"
#include <stdlib.h>
#include <string.h>

static int same_host(const pst_rank_place *a, const pst_rank_place *b) {
    return !memcmp(a->host, b->host, sizeof a->host);
}

static int overlap(const cpu_set_t *a, const cpu_set_t *b) {
    cpu_set_t both;
    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* Adds overlapping sets until nothing changes: at most as many rounds as there are ranks on the
 * host. */
static cpu_set_t processors_of(const pst_rank_place *place, uint32_t n, uint32_t rank) {
    cpu_set_t all = place[rank].mask;
    for (int before = 0; before < CPU_COUNT(&all);) {
        before = CPU_COUNT(&all);
        for (uint32_t r = 0; r < n; r++)
            if (same_host(place + r, place + rank) && overlap(&place[r].mask, &all))
                CPU_OR(&all, &all, &place[r].mask);
    }
    return all;
}

pst_sharing pst_placement_sharing(const pst_rank_place *place, uint32_t n, uint32_t rank) {
    cpu_set_t all = processors_of(place, n, rank);
    pst_sharing out = {.processors = (uint32_t)CPU_COUNT(&all)};
    for (uint32_t r = 0; r < n; r++) {
        if (!same_host(place + r, place + rank)) continue;
        if (!CPU_COUNT(&place[r].mask)) return (pst_sharing){0};
        out.ranks += overlap(&place[r].mask, &all);
    }
    return out;
}

pst_sharing pst_placement_worst(const pst_rank_place *place, uint32_t n, uint32_t rank) {
    pst_sharing worst = pst_placement_sharing(place, n, rank);
    for (uint32_t r = 0; r < n; r++) {
        if (!same_host(place + r, place + rank)) continue;
        pst_sharing g = pst_placement_sharing(place, n, r);
        if ((uint64_t)g.ranks * worst.processors > (uint64_t)worst.ranks * g.processors) worst = g;
    }
    return worst;
}

/* The places of all ranks; the caller frees them. */
static pst_status read_all(pst_world *w, pst_rank_place **out) {
    pst_rank_place *place = calloc(w->size, sizeof *place);
    pst_status status =
        place ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the placement of %u ranks", w->size);
    for (uint32_t r = 0; status == PST_OK && r < w->size; r++)
        status = pst_identity_place(w, r, place + r);
    if (status == PST_OK) *out = place;
    else free(place);
    return status;
}

pst_sharing pst_placement_worst_in_world(pst_world *w) {
    pst_rank_place *place;
    if (!w->sharing || read_all(w, &place) != PST_OK) {
        pst_error_clear();
        return (pst_sharing){0};
    }
    pst_sharing out = pst_placement_worst(place, w->size, w->rank);
    free(place);
    return out;
}

pst_status pst_placement_count(pst_world *w) {
    pst_rank_place *place;
    cpu_set_t all;
    PST_TRY(read_all(w, &place));
    pst_sharing g = pst_placement_sharing(place, w->size, w->rank);
    CPU_ZERO(&all);
    for (uint32_t r = 0; g.ranks && r < w->size; r++)
        if (same_host(place + r, place + w->rank)) CPU_OR(&all, &all, &place[r].mask);
    free(place);
    w->sharing = g.ranks;
    w->processors = g.processors;
    w->host_processors = (uint32_t)CPU_COUNT(&all);
    return PST_OK;
}

uint32_t pst_placement_threads(const pst_world *w, uint32_t ranks) {
    if (!w || w->size < 2 || !w->sharing) return pst_machine_threads(ranks);
    uint32_t part = w->processors / w->sharing, own = pst_machine_cpus();
    if (part > own) part = own;
    return part ? part : 1;
}

pst_processors pst_placement_processors(const pst_world *w) {
    if (!w || w->size < 2 || !w->sharing) return (pst_processors){0};
    return (pst_processors){.n = w->host_processors, .bound = w->sharing < w->local_size};
}
