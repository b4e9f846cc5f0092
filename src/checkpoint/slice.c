/* Tensors of which each tensor rank stores a slice: the suffix of their names, and where their
 * elements belong in the whole tensor. */
#include "checkpoint/parts.h"
#include "graph/slice.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void pst_ckpt_slice_text(const pst_slice *slice, char out[PST_CKPT_SLICE]) {
    size_t used = 0;
    *out = 0;
    /* at most 4 + 3 * 43 bytes: it fits */
    for (uint32_t i = 0; slice->held == PST_HELD_PART && i < slice->n_range; i++) {
        if (!i) used += (size_t)snprintf(out, PST_CKPT_SLICE, "%u=", slice->dim);
        used += (size_t)snprintf(out + used, PST_CKPT_SLICE - used, "%s%" PRIu64 "+%" PRIu64,
                                 i ? "," : "", slice->range[i].first, slice->range[i].count);
    }
}

const char *pst_ckpt_part_name(const char *name, const pst_slice *slice, uint64_t from, uint64_t to,
                               char out[PST_CKPT_NAME]) {
    char text[PST_CKPT_SLICE];
    pst_ckpt_slice_text(slice, text);
    snprintf(out, PST_CKPT_NAME, "%s%s%s%s[%" PRIu64 ":%" PRIu64 "]", name, *text ? "[" : "", text,
             *text ? "]" : "", from, to);
    return out;
}

const char *pst_ckpt_residual_name(const char *param, uint32_t replica, char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.residual%" PRIu32, param, replica);
    return out;
}

const char *pst_ckpt_moments_name(const char *param, uint32_t replica, char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.moments%" PRIu32, param, replica);
    return out;
}

const char *pst_ckpt_basis_name(const char *param, uint32_t replica, uint32_t tensor,
                                char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.basis%" PRIu32 "_%" PRIu32, param, replica, tensor);
    return out;
}

const char *pst_ckpt_pending_name(const char *param, uint32_t age, uint32_t replica,
                                  char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.pending%" PRIu32 "_%" PRIu32, param, age, replica);
    return out;
}

const char *pst_ckpt_island_name(const char *param, uint32_t island, const char *state,
                                 char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.island%" PRIu32 "%s%s", param, island, *state ? "_" : "",
             state);
    return out;
}

const char *pst_ckpt_velocity_name(const char *param, char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.outer", param);
    return out;
}

uint32_t pst_ckpt_islands(const pst_ckpt *ckpt, const char *param) {
    char name[PST_CKPT_NAME];
    uint32_t n = 0;
    while (pst_ckpt_tensor_find(ckpt, pst_ckpt_island_name(param, n, "", name))) n++;
    return n;
}

const char *pst_ckpt_copy_name(const char *param, char out[PST_CKPT_NAME]) {
    snprintf(out, PST_CKPT_NAME, "%s.copy", param);
    return out;
}

/* A number of at most 12 digits, so that sums of a few do not overflow; 0: there is none. */
static int number(const char **at, uint64_t *out) {
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 12) return 0;
    *out = strtoull(*at, NULL, 10);
    *at += digits;
    return 1;
}

static int letter(const char **at, char c) {
    if (**at != c) return 0;
    ++*at;
    return 1;
}

int pst_ckpt_slice_parse(const char *at, const pst_ckpt_tensor *of, pst_slice *slice) {
    uint64_t dim;
    pst_slice s = {.held = PST_HELD_PART};
    if (!number(&at, &dim) || dim >= of->n_dim || !letter(&at, '=')) return 0;
    s.dim = (uint32_t)dim;
    s.whole = of->dim[dim];
    do {
        uint64_t first, count;
        if (s.n_range == PST_MAX_RANGE || !number(&at, &first) || !letter(&at, '+') ||
            !number(&at, &count))
            return 0;
        if (first + count > s.whole) return 0;
        s.range[s.n_range].first = first;
        s.range[s.n_range++].count = count;
    } while (letter(&at, ','));
    *slice = s;
    return !*at;
}

pst_param pst_ckpt_held(const pst_ckpt_tensor *t, const pst_slice *slice) {
    pst_param p = {.n_dim = t->n_dim, .slice = *slice};
    memcpy(p.dim, t->dim, sizeof p.dim);
    p.dim[slice->dim] = 0;
    for (uint32_t i = 0; i < slice->n_range; i++) p.dim[slice->dim] += slice->range[i].count;
    return p;
}

void pst_ckpt_put_slice(const pst_ckpt_tensor *t, const pst_ckpt_part *part, const float *in,
                        float *out, uint64_t from, uint64_t to) {
    pst_param held = pst_ckpt_held(t, &part->slice);
    uint64_t at, count, before = 0;
    for (uint64_t i = 0; before < part->to && pst_slice_run(&held, i, &at, &count);
         before += count, i++) {
        /* Elements [low, high) of the held part are in this run of consecutive elements, in the
         * part, and requested. */
        uint64_t low = before > part->from ? before : part->from;
        uint64_t high = before + count < part->to ? before + count : part->to;
        if (at + (low - before) < from) low = before + (from > at ? from - at : 0);
        if (at + (high - before) > to) high = before + (to > at ? to - at : 0);
        if (low < high)
            memcpy(out + (at + (low - before) - from), in + (low - part->from),
                   (high - low) * sizeof *out);
    }
}
