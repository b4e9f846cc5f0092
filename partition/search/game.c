/* The best mean of linear functions. See game.h. Variables: the weight of each function, the least
 * value v of the mean, and for each corner how much more the mean is there than v. The inverse of
 * the basis is kept, so that a new function takes few steps. */
#include "partition/search/game.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 }; /* most steps of a solution, per row */
#define TINY 1e-9

/* Values of `basis`: functions from 0 on, then v, then the rest of each corner. */
struct pst_search_game {
    uint32_t n_row, most, n, size; /* size: n_row + 1 */
    double *value;                 /* [most][n_row] */
    double *inverse;               /* [size][size] */
    double *column;                /* [size] of the variable that enters */
    uint32_t *basis;               /* [size] */
    uint64_t effort;
    double scale; /* values are divided by it: the largest one of the first */
};

static uint32_t of_v(const pst_search_game *g) { return g->most; }
static uint32_t of_rest(const pst_search_game *g, uint32_t row) { return g->most + 1 + row; }

pst_status pst_search_game_open(uint32_t n_row, uint32_t most, pst_search_game **game) {
    pst_search_game *g = calloc(1, sizeof *g);
    if (!g) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    g->n_row = n_row;
    g->most = most;
    g->size = n_row + 1;
    g->scale = 1e-300;
    g->value = malloc((size_t)most * n_row * sizeof *g->value);
    g->inverse = malloc((size_t)g->size * g->size * sizeof *g->inverse);
    g->column = malloc(g->size * sizeof *g->column);
    g->basis = malloc(g->size * sizeof *g->basis);
    if (!g->value || !g->inverse || !g->column || !g->basis) {
        pst_search_game_close(g);
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    }
    *game = g;
    return PST_OK;
}

void pst_search_game_close(pst_search_game *g) {
    if (!g) return;
    free(g->value);
    free(g->inverse);
    free(g->column);
    free(g->basis);
    free(g);
}

/* The first function has all the weight; v is its least value, at a corner without rest. */
static void start(pst_search_game *g) {
    const double *value = g->value;
    uint32_t least = 0;
    for (uint32_t i = 1; i < g->n_row; i++)
        if (value[i] < value[least]) least = i;
    memset(g->inverse, 0, (size_t)g->size * g->size * sizeof *g->inverse);
    for (uint32_t i = 0; i < g->n_row; i++) {
        /* rest[i] = value[i] w - v - 0, with w = 1 and v = value[least] w */
        double *row = g->inverse + (size_t)i * g->size;
        g->basis[i] = i == least ? of_v(g) : of_rest(g, i);
        row[g->n_row] = i == least ? value[i] : value[i] - value[least];
        row[least] = i == least ? -1 : 1;
        if (i != least) row[i] = -1;
    }
    g->basis[g->n_row] = 0;
    g->inverse[(size_t)g->n_row * g->size + g->n_row] = 1;
}

int pst_search_game_add(pst_search_game *g, const double *value) {
    if (g->n == g->most) return 0;
    double *own = g->value + (size_t)g->n * g->n_row;
    for (uint32_t i = 0; i < g->n_row && !g->n; i++) g->scale = fmax(g->scale, fabs(value[i]));
    for (uint32_t i = 0; i < g->n_row; i++) own[i] = value[i] / g->scale;
    if (!g->n++) start(g);
    return 1;
}

static const double *row_of_v(const pst_search_game *g) {
    uint32_t r = 0;
    while (g->basis[r] != of_v(g)) r++;
    return g->inverse + (size_t)r * g->size;
}

/* What v gains per unit of the variable that enters; UINT32_MAX: none gains. y: the row of v. */
static uint32_t find_entering(const pst_search_game *g, const double *y) {
    uint32_t best = UINT32_MAX;
    double most = TINY;
    for (uint32_t k = 0; k < g->n; k++) {
        const double *value = g->value + (size_t)k * g->n_row;
        double gain = -y[g->n_row];
        for (uint32_t i = 0; i < g->n_row; i++) gain -= y[i] * value[i];
        if (gain > most) {
            most = gain;
            best = k;
        }
    }
    if (best != UINT32_MAX) return best;
    most = TINY;
    for (uint32_t i = 0; i < g->n_row; i++)
        if (y[i] > most) {
            most = y[i];
            best = of_rest(g, i);
        }
    return best;
}

static void find_column(pst_search_game *g, uint32_t entering) {
    const uint32_t n = g->size;
    for (uint32_t r = 0; r < n; r++) {
        const double *row = g->inverse + (size_t)r * n;
        double sum = 0;
        if (entering > of_v(g)) sum = -row[entering - of_rest(g, 0)];
        else {
            const double *value = g->value + (size_t)entering * g->n_row;
            sum = row[g->n_row];
            for (uint32_t i = 0; i < g->n_row; i++) sum += row[i] * value[i];
        }
        g->column[r] = sum;
    }
}

/* The variable that first becomes 0 when the entering one grows; v never leaves. */
static uint32_t find_leaving(const pst_search_game *g) {
    uint32_t best = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t r = 0; r < g->size; r++) {
        const double own = g->column[r], has = g->inverse[(size_t)r * g->size + g->n_row];
        if (g->basis[r] == of_v(g) || own <= TINY) continue;
        const double ratio = fmax(has, 0) / own;
        if (ratio >= least) continue;
        least = ratio;
        best = r;
    }
    return best;
}

static void exchange(pst_search_game *g, uint32_t leaving, uint32_t entering) {
    const uint32_t n = g->size;
    double *restrict from = g->inverse + (size_t)leaving * n;
    for (uint32_t i = 0; i < n; i++) from[i] /= g->column[leaving];
    for (uint32_t r = 0; r < n; r++) {
        double *restrict row = g->inverse + (size_t)r * n;
        const double part = g->column[r];
        if (r == leaving || part == 0) continue;
        for (uint32_t i = 0; i < n; i++) row[i] -= part * from[i];
    }
    g->basis[leaving] = entering;
}

double pst_search_game_solve(pst_search_game *g, double *x) {
    for (uint32_t step = 0; step < STEPS * g->size; step++) {
        const uint32_t entering = find_entering(g, row_of_v(g));
        if (entering == UINT32_MAX) break;
        find_column(g, entering);
        const uint32_t leaving = find_leaving(g);
        if (leaving == UINT32_MAX) break;
        exchange(g, leaving, entering);
        g->effort += (uint64_t)g->size * (2 * g->size + g->n);
    }
    const double *y = row_of_v(g);
    double sum = 0;
    for (uint32_t i = 0; i < g->n_row; i++) sum += x[i] = fmax(-y[i], 0);
    for (uint32_t i = 0; i < g->n_row; i++) x[i] /= sum;
    return y[g->n_row] * g->scale;
}

uint64_t pst_search_game_effort(const pst_search_game *g) { return g->effort; }

uint32_t pst_search_game_weights(const pst_search_game *g, double *weight) {
    double sum = 0;
    memset(weight, 0, g->n * sizeof *weight);
    for (uint32_t r = 0; r < g->size; r++) {
        if (g->basis[r] >= of_v(g)) continue;
        weight[g->basis[r]] = fmax(g->inverse[(size_t)r * g->size + g->n_row], 0);
        sum += weight[g->basis[r]];
    }
    for (uint32_t k = 0; k < g->n; k++) weight[k] /= sum;
    return g->n;
}
