/* Reference updates that need a whole parameter: Muon for a matrix, and LAMB. Plain loops in
 * double; kernels/cpu computes the same faster, with other rounding. */
#include "kernels/muon.h"
#include <math.h>
#include <stdlib.h>

static double norm_of(const double *x, uint64_t n) {
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static void lamb(const pst_optim_hyper *h, const pst_arith_param *p, double *w, double *u) {
    float *first = p->state[0], *second = p->state[1];
    for (uint64_t i = 0; i < p->n; i++) {
        double g = (double)(p->grad[i] * h->grad_scale);
        double m = (double)h->beta1 * (double)first[i] + (1 - (double)h->beta1) * g;
        double v = (double)h->beta2 * (double)second[i] + (1 - (double)h->beta2) * g * g;
        double root = sqrt(v / (double)h->correction2) + (double)h->eps;
        w[i] = (double)p->weight[i];
        u[i] = m / (double)h->correction1 / root + (double)p->decay * w[i];
        first[i] = (float)m;
        second[i] = (float)v;
    }
    double of_w = norm_of(w, p->n), of_u = norm_of(u, p->n);
    double trust = of_w > 0 && of_u > 0 ? of_w / of_u : 1;
    for (uint64_t i = 0; i < p->n; i++) p->weight[i] = (float)(w[i] - (double)h->lr * trust * u[i]);
}

/* c[m,n] = a[m,k] b[k,n]; trans: b is [n,k]. */
static void product(double *c, const double *a, const double *b, const uint64_t mnk[3], int trans) {
    uint64_t m = mnk[0], n = mnk[1], k = mnk[2];
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = 0;
            for (uint64_t t = 0; t < k; t++)
                sum += a[i * k + t] * (trans ? b[j * k + t] : b[t * n + j]);
            c[i * n + j] = sum;
        }
}

/* X [rows,cols] with rows <= cols becomes an approximation of the nearest semi-orthogonal matrix.
 * room: for rows*cols + 2*rows*rows numbers. */
static void orthogonalize(double *x, uint64_t rows, uint64_t cols, double *room) {
    double *y = room, *a = y + rows * cols, *b = a + rows * rows;
    double norm = norm_of(x, rows * cols);
    if (norm < PST_MUON_EPS) norm = PST_MUON_EPS;
    for (uint64_t i = 0; i < rows * cols; i++) x[i] /= norm;
    for (int step = 0; step < PST_MUON_STEPS; step++) {
        product(a, x, x, (uint64_t[]){rows, rows, cols}, 1);
        product(b, a, a, (uint64_t[]){rows, rows, rows}, 0);
        for (uint64_t i = 0; i < rows * rows; i++) b[i] = PST_MUON_B * a[i] + PST_MUON_C * b[i];
        product(y, b, x, (uint64_t[]){rows, cols, rows}, 0);
        for (uint64_t i = 0; i < rows * cols; i++) x[i] = PST_MUON_A * x[i] + y[i];
    }
}

/* The matrix is transposed if it has more rows than columns. */
static void muon(const pst_optim_hyper *h, const pst_arith_param *p, const pst_matrix_shape *of,
                 double *x) {
    int turned = of->rows > of->cols;
    uint64_t rows = turned ? of->cols : of->rows;
    uint64_t cols = turned ? of->rows : of->cols;
    float *momentum = p->state[0];
    double mu = (double)h->momentum, rate = (double)h->lr * PST_MUON_RMS * sqrt((double)cols);
    for (uint64_t r = 0; r < of->rows; r++)
        for (uint64_t c = 0; c < of->cols; c++) {
            uint64_t i = r * of->cols + c;
            double g = (double)(p->grad[i] * h->grad_scale);
            double m = mu * (double)momentum[i] + (1 - mu) * g;
            momentum[i] = (float)m;
            x[turned ? c * of->rows + r : i] = (1 - mu) * g + mu * m;
        }
    orthogonalize(x, rows, cols, x + p->n);
    for (uint64_t r = 0; r < of->rows; r++)
        for (uint64_t c = 0; c < of->cols; c++) {
            uint64_t i = r * of->cols + c;
            double w = (double)p->weight[i] * (1 - (double)h->lr * (double)p->decay);
            p->weight[i] = (float)(w - rate * x[turned ? c * of->rows + r : i]);
        }
}

pst_status pst_muon_ref(const pst_optim_hyper *h, const pst_arith_param *p,
                        const pst_matrix_shape *of) {
    uint64_t least = of->rows < of->cols ? of->rows : of->cols;
    double *room = malloc((2 * p->n + 2 * least * least + 1) * sizeof *room);
    if (!room) return pst_fail(PST_ENOMEM, "no memory for an optimizer step");
    muon(h, p, of, room);
    free(room);
    return PST_OK;
}

pst_status pst_lamb_ref(const pst_optim_hyper *h, const pst_arith_param *p) {
    double *room = malloc((2 * p->n + 1) * sizeof *room);
    if (!room) return pst_fail(PST_ENOMEM, "no memory for an optimizer step");
    lamb(h, p, room, room + p->n);
    free(room);
    return PST_OK;
}
