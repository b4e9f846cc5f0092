/* Copies bands of images with their padding, for all passes of a direct convolution. */
#include "kernels/cpu/convolution_job.h"

/* Pixels [first, first + n) of a line of `size` pixels: how many are before it, on it, behind it.
 */
typedef struct {
    uint64_t before, at, on, behind;
} extent;

static extent extent_of(int64_t first, uint64_t n, uint64_t size) {
    const int64_t end = first + (int64_t)n, length = (int64_t)size;
    const int64_t from = first < 0 ? 0 : first, to = end < length ? end : length;
    if (to <= from) return (extent){n, 0, 0, 0};
    return (extent){(uint64_t)(from - first), (uint64_t)from, (uint64_t)(to - from),
                    (uint64_t)(end - to)};
}

void pst_conv_copy_band(const pst_conv_job *j, const pst_conv_band *b, uint8_t *to) {
    const uint64_t n = pst_conv_band_columns(j), rows = pst_conv_in_rows(j, b->rows);
    const uint64_t steps = b->wide ? b->channels : pst_conv_steps(j, b->channels);
    const extent x = extent_of(-j->left, n, j->from.width);
    for (uint64_t image = 0; image < b->images; image++)
        for (uint64_t i = 0; i < rows; i++, to += n * steps * 4) {
            const int64_t y = (int64_t)(b->row * j->step + i) - j->top;
            const uint64_t at = (b->image + image) * j->from.image + (uint64_t)y * j->from.row +
                                x.at * j->from.pixel + b->channel;
            const int outside = y < 0 || y >= (int64_t)j->from.height || !x.on;
            const pst_conv_copy copy = {.from = outside ? NULL : j->x + at * j->size,
                                        .left = x.before,
                                        .n = x.on,
                                        .right = x.behind,
                                        .pixel = j->from.pixel,
                                        .channels = b->channels,
                                        .to = to};
            if (b->wide) j->ops->direct->widen(&copy);
            else j->ops->direct->copy(&copy);
        }
}
