/* Sums of squares whose bits do not depend on how the numbers are divided or ordered, for norms
 * over tensor ranks (compare Ahrens, Demmel, Nguyen: Algorithms for Efficient Reproducible Floating
 * Point Summation, 2020). A square is divided into multiples of fixed units, 2^32 apart; each
 * unit's multiples are added exactly. Of all units, those count that the largest square has in its
 * upper 65 to 96 bits: three units, whichever numbers they are summed with. */
#ifndef PST_KERNELS_SQUARES_H
#define PST_KERNELS_SQUARES_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* top: number of the first unit, 2^(256 - 32 top); sum: of three units from there on. At most 2^21
 * squares. A sum that is not finite: top 0, NaN. */
typedef struct {
    double top, sum[3];
} pst_squares;
enum { PST_SQUARES_BLOCK = 4096, PST_SQUARES_NONE = 99 /* top of an empty sum */ };

static inline int pst_squares_exponent(double top) { return 256 - 32 * (int)top; }

/* to += from */
static inline void pst_squares_add(pst_squares *to, const pst_squares *from) {
    const int from_is_higher = from->top < to->top;
    const pst_squares *high = from_is_higher ? from : to;
    const pst_squares *low = from_is_higher ? to : from;
    pst_squares both = *high;
    int shift = (int)(low->top - high->top);
    for (int i = 0; shift + i < 3; i++) both.sum[shift + i] += low->sum[i];
    *to = both;
}

typedef float pst_squares_in __attribute__((vector_size(32)));
typedef double pst_squares_vector __attribute__((vector_size(64)));
typedef int32_t pst_squares_bits __attribute__((vector_size(32)));

/* The largest magnitude of 8 n numbers, as bits. */
static inline int32_t pst_squares_largest(const float *x, uint64_t n) {
    pst_squares_bits most = {0};
    int32_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        pst_squares_bits b;
        memcpy(&b, x + 8 * i, sizeof b);
        b &= 0x7fffffff;
        pst_squares_bits more = b > most;
        most = (b & more) | (most & ~more);
    }
    for (int k = 0; k < 8; k++) largest = most[k] > largest ? most[k] : largest;
    return largest;
}

/* Adds the squares of 8 n numbers, whose first unit is `top`. Adding a large number and subtracting
 * it again rounds to a multiple of the unit. */
static inline void pst_squares_split(const float *x, uint64_t n, pst_squares *out) {
    const int e = pst_squares_exponent(out->top);
    const double high = ldexp(1.5, e + 52), middle = ldexp(1.5, e + 20), low = ldexp(1.5, e - 12);
    pst_squares_vector sum[3] = {{0}, {0}, {0}};
    for (uint64_t i = 0; i < n; i++) {
        pst_squares_in in;
        memcpy(&in, x + 8 * i, sizeof in);
        pst_squares_vector v = __builtin_convertvector(in, pst_squares_vector);
        v = v * v;
        pst_squares_vector part = (v + high) - high;
        sum[0] += part;
        v -= part;
        part = (v + middle) - middle;
        sum[1] += part;
        v -= part;
        sum[2] += (v + low) - low;
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 8; k++) out->sum[i] += sum[i][k];
}

/* The sum of n <= PST_SQUARES_BLOCK squares. */
static inline pst_squares pst_squares_of_block(const float *x, uint64_t n) {
    float rest[8] = {0}, largest;
    pst_squares out = {PST_SQUARES_NONE, {0}};
    memcpy(rest, x + n / 8 * 8, n % 8 * sizeof *rest);
    int32_t bits = pst_squares_largest(x, n / 8), of_rest = pst_squares_largest(rest, 1);
    if (of_rest > bits) bits = of_rest;
    if (bits == 0) return out;
    if (bits >= 0x7f800000) return (pst_squares){0, {NAN, 0, 0}};
    memcpy(&largest, &bits, sizeof largest);
    out.top = (286 - ilogb((double)largest * (double)largest)) / 32;
    pst_squares_split(x, n / 8, &out);
    pst_squares_split(rest, 1, &out);
    return out;
}

/* A sum of more squares: each term's sums in halves, so that many terms add exactly. */
typedef struct {
    pst_squares high, low;
} pst_squares_total;
static const pst_squares_total PST_SQUARES_ZERO = {{PST_SQUARES_NONE, {0}},
                                                   {PST_SQUARES_NONE, {0}}};

static inline void pst_squares_total_add(pst_squares_total *to, const pst_squares *term) {
    pst_squares high = *term, low = high;
    if (high.top == PST_SQUARES_NONE) return; /* all are zero */
    for (int k = 0; k < 3; k++) {
        double unit = ldexp(1, pst_squares_exponent(high.top) - 32 * k + 24);
        high.sum[k] = trunc(high.sum[k] / unit) * unit;
        low.sum[k] -= high.sum[k];
    }
    pst_squares_add(&to->high, &high);
    pst_squares_add(&to->low, &low);
}

static inline void pst_squares_total_join(pst_squares_total *to, const pst_squares_total *from) {
    pst_squares_add(&to->high, &from->high);
    pst_squares_add(&to->low, &from->low);
}

static inline double pst_squares_total_value(const pst_squares_total *of) {
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += of->high.sum[k] + of->low.sum[k];
    return sum;
}
#endif
