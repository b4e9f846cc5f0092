/* See blend.h. A block of samples is divided among the sources; the place of a sample in its block
 * is shuffled, and tells the source and the sample of that source. */
#include "data/blend.h"
#include "base/hash.h"
#include "base/rng.h"
#include "data/order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples of a block: so many that the heaviest of n sources has at least n of them. */
enum { BLOCK = PST_BLEND_MOST * PST_BLEND_MOST };

typedef struct {
    pst_data base;
    pst_data_row row; /* that of the sources, with the functions of this file */
    uint32_t n, heaviest;
    uint64_t key;                 /* of the order within blocks */
    double share[PST_BLEND_MOST]; /* of the samples; the sum is 1 */
    pst_data *source[PST_BLEND_MOST];
} blend;

/* --- shares ----------------------------------------------------------------------------------- */

static pst_status read_weight(const char *text, double *weight) {
    char *end;
    *weight = strtod(text, &end);
    if (!*text || *end || !(*weight > 0) || !isfinite(*weight))
        return pst_fail(PST_EINPUT, "data.blend: '%.40s' is not a number above 0", text);
    return PST_OK;
}

static pst_status read_weights(blend *b, const pst_data_config *c) {
    double sum = 0;
    if (c->n_weight != c->n_path)
        return pst_fail(PST_EINPUT,
                        "data.blend has %u values, but data.paths has %u; each path needs one",
                        c->n_weight, c->n_path);
    if (c->n_path > PST_BLEND_MOST)
        return pst_fail(PST_EINPUT, "data.blend has %u values; the maximum is %d", c->n_weight,
                        PST_BLEND_MOST);
    for (uint32_t i = 0; i < c->n_path; i++) {
        PST_TRY(read_weight(c->weights[i], &b->share[i]));
        if (b->share[i] > b->share[b->heaviest]) b->heaviest = i;
        sum += b->share[i];
    }
    if (!isfinite(sum))
        return pst_fail(PST_EINPUT, "data.blend: the sum of the weights is too large; only their "
                                    "proportions count, so use smaller ones");
    for (uint32_t i = 0; i < c->n_path; i++) b->share[i] /= sum;
    return PST_OK;
}

/* Number of samples of each source among the first `samples`: rounded down; the heaviest source
 * has what is left. */
static void count(const blend *b, uint64_t samples, uint64_t out[PST_BLEND_MOST]) {
    uint64_t left = samples;
    for (uint32_t i = 0; i < b->n; i++) {
        out[i] = i == b->heaviest ? 0 : (uint64_t)((double)samples * b->share[i]);
        left -= out[i];
    }
    out[b->heaviest] = left;
}

/* The source of a training sample, and the number of the sample there. */
static uint32_t find(const blend *b, uint64_t index, uint64_t *sample) {
    uint64_t before[PST_BLEND_MOST], after[PST_BLEND_MOST], block = index / BLOCK * BLOCK;
    uint64_t place = pst_order_shuffled(b->key, BLOCK, index);
    count(b, block, before);
    count(b, block + BLOCK, after);
    uint32_t i = 0;
    while (place >= after[i] - before[i]) {
        place -= after[i] - before[i];
        i++;
    }
    *sample = before[i] + place;
    return i;
}

/* --- the table -------------------------------------------------------------------------------- */

static uint64_t blend_size(const pst_data *data, pst_split split) {
    const blend *b = (const blend *)data;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n; i++) sum += b->source[i]->row->size(b->source[i], split);
    return sum;
}

static uint64_t blend_bytes(const pst_data *data, pst_split split) {
    const blend *b = (const blend *)data;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < b->n; i++) sum += b->source[i]->row->bytes(b->source[i], split);
    return sum;
}

static uint32_t blend_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    const pst_data *first = ((const blend *)data)->source[0];
    return first->row->fields(first, out);
}

static pst_status blend_sample(pst_data *data, pst_split split, uint64_t index,
                               int32_t *const *out) {
    blend *b = (blend *)data;
    uint32_t i = 0;
    if (split == PST_SPLIT_TRAIN) {
        i = find(b, index, &index);
    } else {
        for (; i + 1 < b->n; i++) {
            uint64_t here = b->source[i]->row->size(b->source[i], split);
            if (index < here) break;
            index -= here;
        }
    }
    return b->source[i]->row->sample(b->source[i], split, index, out);
}

static uint64_t blend_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const blend *b = (const blend *)data;
    uint64_t sum = 0;
    for (uint64_t k = first; k < first + n; k++) {
        uint64_t sample;
        const pst_data *source = b->source[find(b, k, &sample)];
        sum += source->row->targets(source, sample, 1);
    }
    return sum;
}

static uint64_t blend_hash(const pst_data *data) {
    const blend *b = (const blend *)data;
    uint64_t hash = pst_hash64("blend", 5, b->key);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint64_t own = b->source[i]->row->hash(b->source[i]);
        hash = pst_hash64(&own, sizeof own, hash);
        hash = pst_hash64(&b->share[i], sizeof b->share[i], hash);
    }
    return hash;
}

static uint64_t blend_tokenizer(const pst_data *data) {
    return pst_data_tokenizer(((const blend *)data)->source[0]);
}

static const uint32_t *blend_token_bytes(const pst_data *data, uint32_t *n) {
    return pst_data_token_bytes(((const blend *)data)->source[0], n);
}

static void blend_close(pst_data *data) {
    blend *b = (blend *)data;
    for (uint32_t i = 0; b && i < b->n; i++) b->source[i]->row->close(b->source[i]);
    free(b);
}

/* The functions of a blend, for sources with this table. */
static void fill_row(blend *b, const pst_data_row *of_sources) {
    b->row = *of_sources;
    b->row.size = blend_size;
    b->row.bytes = blend_bytes;
    b->row.fields = blend_fields;
    b->row.sample = blend_sample;
    if (of_sources->targets) b->row.targets = blend_targets;
    b->row.hash = blend_hash;
    b->row.tokenizer = blend_tokenizer;
    b->row.token_bytes = blend_token_bytes;
    b->row.close = blend_close;
}

pst_status pst_blend_open(const pst_data_row *row, const pst_data_config *c, pst_data **out) {
    blend *b = calloc(1, sizeof *b);
    if (!b) return pst_no_memory("for data");
    b->base.row = &b->row;
    b->key = pst_rng_key(c->seed, "data.blend");
    pst_status status = read_weights(b, c);
    for (uint32_t i = 0; status == PST_OK && i < c->n_path; i++) {
        pst_data_config one = *c;
        one.paths = c->paths + i;
        one.n_path = 1;
        one.n_weight = 0;
        status = row->open(&one, &b->source[i]);
        b->n += status == PST_OK;
    }
    if (status == PST_OK) {
        fill_row(b, b->source[0]->row);
        *out = &b->base;
    } else {
        blend_close(&b->base);
    }
    return status;
}
