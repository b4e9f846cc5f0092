/* Replacements of characters in a SentencePiece model: its size in bytes (4), a double array (of
 * darts-clone, 4 bytes per unit), and the replacements, each ended by a zero. */
#include "tokenizer/parts.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_charsmap_open(const uint8_t *at, size_t bytes, pst_charsmap *map) {
    uint32_t size = 0;
    if (bytes >= 4) memcpy(&size, at, 4);
    if (bytes < 4 || size > bytes - 4 || size % 4 || !size)
        return pst_fail(PST_EINPUT, "the table of replaced characters is damaged");
    size_t left = bytes - 4 - size;
    map->unit = malloc(size);
    map->text = malloc(left + 1);
    if (!map->unit || !map->text) return pst_no_memory("for a tokenizer");
    map->n_unit = size / 4;
    map->bytes = left;
    memcpy(map->unit, at + 4, size);
    memcpy(map->text, at + 4 + size, left);
    map->text[left] = 0;
    return PST_OK;
}

void pst_charsmap_free(pst_charsmap *map) {
    free(map->unit);
    free(map->text);
    *map = (pst_charsmap){0};
}

/* Parts of a unit: where its children are, the byte that leads to it, whether a text ends there,
 * and the value of that text, which is the unit before the children. */
static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xff); }
static int ends_here(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t value_of(uint32_t unit) { return unit & ((1u << 31) - 1); }

const char *pst_charsmap_find(const pst_charsmap *map, const uint8_t *at, size_t bytes,
                              size_t *taken, size_t *n) {
    const char *found = NULL;
    if (!map->n_unit) return NULL;
    size_t node = offset_of(map->unit[0]);
    for (size_t i = 0; i < bytes; i++) {
        node ^= at[i];
        if (node >= map->n_unit || label_of(map->unit[node]) != at[i]) break;
        int ends = ends_here(map->unit[node]);
        node ^= offset_of(map->unit[node]);
        if (node >= map->n_unit) break;
        if (!ends) continue;
        uint32_t value = value_of(map->unit[node]);
        if (value > map->bytes) break;
        found = map->text + value;
        *taken = i + 1;
    }
    if (found) *n = strlen(found);
    return found;
}
