/* See initial.h. */
#include "graph/initial.h"
#include "base/rng.h"
#include "graph/slice.h"

enum { TILE = 1 << 16 };

/* Each number depends on its index only, so any thread may draw it. */
typedef struct {
    uint64_t key, at, count;
    float std;
    float *w;
} draw;

static void draw_tile(void *arg, uint64_t tile, uint32_t thread) {
    const draw *d = arg;
    uint64_t from = tile * TILE, n = d->count - from < TILE ? d->count - from : TILE;
    (void)thread;
    pst_rng_normal_from(d->key, 0, d->std, d->at + from, d->w + from, n);
}

/* For each contiguous run of the held elements, those within [from, to). */
void pst_param_initial(const pst_param *param, uint64_t seed, uint64_t from, uint64_t to,
                       pst_pool *pool, float *out) {
    uint64_t key = pst_rng_key(seed, param->name), before = 0, at, count;
    for (uint64_t i = 0; pst_slice_run(param, i, &at, &count); i++, before += count) {
        uint64_t low = from > before ? from : before,
                 high = to < before + count ? to : before + count;
        if (low >= high) continue;
        draw d = {key, at + (low - before), high - low, param->std, out + (low - from)};
        const uint64_t tiles = param->init == PST_INIT_NORMAL ? (d.count + TILE - 1) / TILE : 0;
        if (pool) pst_pool_run(pool, draw_tile, &d, tiles);
        else
            for (uint64_t tile = 0; tile < tiles; tile++) draw_tile(&d, tile, 0);
        if (!tiles)
            for (uint64_t k = low; k < high; k++)
                out[k - from] = param->init == PST_INIT_ONE ? 1.0f : 0.0f;
    }
}
