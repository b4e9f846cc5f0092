/* See seats.h. */
#include "run/seats.h"
#include "backends/machine.h"
#include <stdlib.h>
#include <string.h>

static int same_host(const pst_seat *a, const pst_seat *b) {
    return !memcmp(a->host, b->host, sizeof a->host);
}

static int overlap(const cpu_set_t *a, const cpu_set_t *b) {
    cpu_set_t both;
    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* Grows until nobody overlaps any more: in at most as many rounds as there are ranks on the
 * host. */
static cpu_set_t processors_of(const pst_seat *seat, uint32_t n, uint32_t rank) {
    cpu_set_t all = seat[rank].mask;
    for (int before = 0; before < CPU_COUNT(&all);) {
        before = CPU_COUNT(&all);
        for (uint32_t r = 0; r < n; r++)
            if (same_host(seat + r, seat + rank) && overlap(&seat[r].mask, &all))
                CPU_OR(&all, &all, &seat[r].mask);
    }
    return all;
}

pst_seat_group pst_seats_group(const pst_seat *seat, uint32_t n, uint32_t rank) {
    cpu_set_t all = processors_of(seat, n, rank);
    pst_seat_group out = {.processors = (uint32_t)CPU_COUNT(&all)};
    for (uint32_t r = 0; r < n; r++) {
        if (!same_host(seat + r, seat + rank)) continue;
        if (!CPU_COUNT(&seat[r].mask)) return (pst_seat_group){0};
        out.ranks += overlap(&seat[r].mask, &all);
    }
    return out;
}

pst_seat_group pst_seats_crowd(const pst_seat *seat, uint32_t n, uint32_t rank) {
    pst_seat_group worst = pst_seats_group(seat, n, rank);
    for (uint32_t r = 0; r < n; r++) {
        if (!same_host(seat + r, seat + rank)) continue;
        pst_seat_group g = pst_seats_group(seat, n, r);
        if ((uint64_t)g.ranks * worst.processors > (uint64_t)worst.ranks * g.processors) worst = g;
    }
    return worst;
}

/* All of them, which the caller frees. */
static pst_status read_all(pst_world *w, pst_seat **out) {
    pst_seat *seat = calloc(w->size, sizeof *seat);
    pst_status status =
        seat ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the places of %u ranks", w->size);
    for (uint32_t r = 0; status == PST_OK && r < w->size; r++)
        status = pst_compare_seat(w, r, seat + r);
    if (status == PST_OK) *out = seat;
    else free(seat);
    return status;
}

pst_seat_group pst_seats_most_crowded(pst_world *w) {
    pst_seat *seat;
    if (!w->sharing || read_all(w, &seat) != PST_OK) {
        pst_error_clear();
        return (pst_seat_group){0};
    }
    pst_seat_group out = pst_seats_crowd(seat, w->size, w->rank);
    free(seat);
    return out;
}

pst_status pst_seats_count(pst_world *w) {
    pst_seat *seat;
    cpu_set_t all;
    PST_TRY(read_all(w, &seat));
    pst_seat_group g = pst_seats_group(seat, w->size, w->rank);
    CPU_ZERO(&all);
    for (uint32_t r = 0; g.ranks && r < w->size; r++)
        if (same_host(seat + r, seat + w->rank)) CPU_OR(&all, &all, &seat[r].mask);
    free(seat);
    w->sharing = g.ranks;
    w->processors = g.processors;
    w->host_processors = (uint32_t)CPU_COUNT(&all);
    return PST_OK;
}

uint32_t pst_seats_threads(const pst_world *w, uint32_t ranks) {
    if (!w || w->size < 2 || !w->sharing) return pst_machine_threads(ranks);
    uint32_t part = w->processors / w->sharing, own = pst_machine_cpus();
    if (part > own) part = own;
    return part ? part : 1;
}

pst_processors pst_seats_processors(const pst_world *w) {
    if (!w || w->size < 2 || !w->sharing) return (pst_processors){0};
    return (pst_processors){.n = w->host_processors, .bound = w->sharing < w->local_size};
}
