/* Moves borders between chunks. */
#include "partition/search/cut.h"

enum { NEAR = 8 };

int pst_search_move_border(pst_candidate *c, uint32_t k, int64_t to) {
    if (to < k || to > (int64_t)c->layout.n_item - (c->layout.n_chunk - k)) return 0;
    c->layout.first_item[k] = (uint32_t)to;
    for (uint32_t i = k; i > 1 && c->layout.first_item[i - 1] >= c->layout.first_item[i]; i--)
        c->layout.first_item[i - 1] = c->layout.first_item[i] - 1;
    for (uint32_t i = k;
         i + 1 < c->layout.n_chunk && c->layout.first_item[i + 1] <= c->layout.first_item[i]; i++)
        c->layout.first_item[i + 1] = c->layout.first_item[i] + 1;
    return 1;
}

/* The next cut in lexicographic order: the last border that can move moves by one, and those after
 * it follow closely. 0: there is none. */
int pst_search_next_cut(uint32_t *first, uint32_t n_chunk, uint32_t n_item) {
    for (uint32_t k = n_chunk; k-- > 1;) {
        if (first[k] + 1 > n_item - (n_chunk - k)) continue;
        first[k]++;
        for (uint32_t i = k + 1; i < n_chunk; i++) first[i] = first[i - 1] + 1;
        return 1;
    }
    return 0;
}

/* Moves each border to the nearest place (at most NEAR items away) where at most half as many bytes
 * cross. 0: no border moved. */
int pst_search_narrow_borders(const pst_search_table *t, pst_candidate *c) {
    int any = 0;
    for (uint32_t k = 1; k < c->layout.n_chunk; k++) {
        const uint64_t *cross = t->table->cross, at = c->layout.first_item[k], wide = cross[at];
        for (uint64_t far = 1, found = 0; far <= NEAR && !found; far++) {
            const int before = at > far && cross[at - far] <= wide / 2;
            const int behind = at + far < c->layout.n_item && cross[at + far] <= wide / 2;
            if (before || behind) {
                found = 1;
                any |= pst_search_move_border(c, k, (int64_t)at + (int64_t)(before ? -far : far));
            }
        }
    }
    return any;
}
