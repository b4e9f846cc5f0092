/* The transforms of Winograd's F(2x2, 3x3) (convolution_fast.c), for the vector
 * length of the including file: B'dB of 4x4 pixels d, A'mA of 16 sums m, GgG' of a 3x3 window g. */

/* B'd for one row or column: four numbers with a distance of `step`. */
VEC_INLINE void fast_in(vf d[16], unsigned at, unsigned step) {
    const vf a = d[at], b = d[at + step], c = d[at + 2 * step], e = d[at + 3 * step];
    d[at] = a - c;
    d[at + step] = b + c;
    d[at + 2 * step] = c - b;
    d[at + 3 * step] = b - e;
}

static void direct_tiles_in(const pst_conv_tiles_in *t) {
    for (uint64_t tile = 0; tile < t->n; tile++) {
        const float *from = t->from + 2 * tile * t->channels;
        float *to = t->to + tile * t->channels;
        VEC_EACH(i, n, t->channels, {
            vf d[16];
            VEC_UNROLL for (unsigned k = 0; k < 16; k++) d[k] =
                v_load_n(from + k / 4 * t->row + k % 4 * t->channels + i, n);
            VEC_UNROLL for (unsigned k = 0; k < 4; k++) fast_in(d, k, 4);
            VEC_UNROLL for (unsigned k = 0; k < 4; k++) fast_in(d, 4 * k, 1);
            VEC_UNROLL for (unsigned k = 0; k < 16; k++) v_store_n(to + k * t->plane + i, d[k], n);
        });
    }
}

static void direct_tiles_out(const pst_conv_tiles_out *t) {
    for (uint64_t tile = 0; tile < t->n; tile++) {
        const float *from = t->from + tile * t->ld;
        float *to = t->to + 2 * tile * t->pixel;
        const int narrow = 2 * tile + 1 == t->columns, low = t->rows == 1;
        VEC_EACH(i, n, t->cols, {
            vf m[16];
            vf s[8];
            VEC_UNROLL for (unsigned k = 0; k < 16; k++) m[k] =
                v_load_n(from + k * t->plane + i, n);
            VEC_UNROLL for (unsigned k = 0; k < 4; k++) {
                s[k] = m[k] + m[4 + k] + m[8 + k];
                s[4 + k] = m[4 + k] - m[8 + k] - m[12 + k];
            }
            v_store_n(to + i, s[0] + s[1] + s[2], n);
            if (!narrow) v_store_n(to + t->pixel + i, s[1] - s[2] - s[3], n);
            if (!low) v_store_n(to + t->row + i, s[4] + s[5] + s[6], n);
            if (!low && !narrow) v_store_n(to + t->row + t->pixel + i, s[5] - s[6] - s[7], n);
        });
    }
}

/* Gg: converts three numbers of a window to four. */
VEC_INLINE void fast_weight(const vf g[3], vf u[4]) {
    const vf half = v_set(0.5f), sum = g[0] + g[2];
    u[0] = g[0];
    u[1] = (sum + g[1]) * half;
    u[2] = (sum - g[1]) * half;
    u[3] = g[2];
}

static void direct_tiles_of_weight(float *planes, uint64_t count) {
    VEC_EACH(i, n, count, {
        vf g[3][3];
        vf u[4][3];
        VEC_UNROLL for (unsigned k = 0; k < 9; k++) g[k % 3][k / 3] =
            v_load_n(planes + k * count + i, n);
        VEC_UNROLL for (unsigned k = 0; k < 3; k++) {
            vf column[4];
            fast_weight(g[k], column);
            VEC_UNROLL for (unsigned r = 0; r < 4; r++) u[r][k] = column[r];
        }
        VEC_UNROLL for (unsigned r = 0; r < 4; r++) {
            vf row[4];
            fast_weight(u[r], row);
            VEC_UNROLL for (unsigned k = 0; k < 4; k++)
                v_store_n(planes + (4 * r + k) * count + i, row[k], n);
        }
    });
}
