/* Random numbers of dropout: the streams of base/rng.h, a vector of counters at a time. */

/* Philox4x32-10 (base/rng.c) for VEC_W counters; lane l of word[w] is word w of the result for the
 * counter in lane l. */
VEC_INLINE void philox(const vi counter[4], uint64_t key, vi word[4]) {
    vi c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    vi m0 = vi_set(0xD2511F53u), m1 = vi_set(0xCD9E8D57u);
    VEC_UNROLL
    for (int round = 0; round < 10; round++) {
        vi high0, low0, high1, low1;
        vi_mul(c0, m0, &high0, &low0);
        vi_mul(c2, m1, &high1, &low1);
        c0 = vi_xor(vi_xor(high1, c1), vi_set(k0));
        c1 = low1;
        c2 = vi_xor(vi_xor(high0, c3), vi_set(k1));
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* Uniform numbers of the 4 VEC_W elements that begin at a position of a sample's stream: uniform[r]
 * has elements [r*W, (r+1)*W). Lane 4g+r of the counters holds number r*W/4 + g, so that a
 * transpose within 128-bit groups is enough to sort the words by counter. */
VEC_INLINE void draw(uint64_t key, uint64_t sample, uint64_t position, vf uniform[4]) {
    uint32_t counter[VEC_W];
    for (uint32_t lane = 0; lane < VEC_W; lane++)
        counter[lane] = (uint32_t)position + lane % 4 * (VEC_W / 4) + lane / 4;
    const vi counters[4] = {vi_load(counter), vi_set((uint32_t)(position >> 32)),
                            vi_set((uint32_t)sample), vi_set((uint32_t)(sample >> 32))};
    vi w[4];
    philox(counters, key, w);
    vi a = vi_low32(w[0], w[1]), b = vi_low32(w[2], w[3]), c = vi_high32(w[0], w[1]),
       d = vi_high32(w[2], w[3]);
    uniform[0] = vi_uniform(vi_low64(a, b));
    uniform[1] = vi_uniform(vi_high64(a, b));
    uniform[2] = vi_uniform(vi_low64(c, d));
    uniform[3] = vi_uniform(vi_high64(c, d));
}
