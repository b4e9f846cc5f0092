/* Trains a linear model with gradients of its own, over a key-value store (penstock/kv.h).
 *
 *     cc -O2 kv.c -o kv $(pkg-config --cflags --libs penstock) -lm && mpirun -n 4 ./kv [SERVERS] */
#include <math.h>
#include <penstock/kv.h>
#include <stdio.h>
#include <stdlib.h>
#define TRY(call)                                                                                  \
    if ((status = (call)) != PST_OK) return status /* pst_error() has the reason */

enum { INPUTS = 64, BATCH = 16, STEPS = 200 };

/* Each worker has samples of its own: y = x . w with w = (1, 2, 3, ...) / INPUTS. Returns the mean
 * of the squared errors; gradient: its derivative. */
static double gradient_of(const float *w, float *gradient, unsigned *seed) {
    double sum = 0;
    for (int i = 0; i < INPUTS; i++) gradient[i] = 0;
    for (int b = 0; b < BATCH; b++) {
        float x[INPUTS], error = 0;
        for (int i = 0; i < INPUTS; i++) x[i] = (float)rand_r(seed) / (float)RAND_MAX - 0.5f;
        for (int i = 0; i < INPUTS; i++) error += x[i] * (w[i] - (float)(i + 1) / INPUTS);
        for (int i = 0; i < INPUTS; i++) gradient[i] += 2 * error * x[i] / BATCH;
        sum += error * error;
    }
    return sum / BATCH;
}

static pst_status train(pst_kv *kv) {
    float w[INPUTS] = {0}, gradient[INPUTS];
    unsigned seed = 1 + pst_kv_rank(kv);
    pst_kv_optimizer optimizer;
    pst_status status;
    pst_kv_optimizer_init(&optimizer, "sgd");
    optimizer.lr = 0.1;
    optimizer.momentum = 0.9;
    optimizer.rescale = 1.0 / pst_kv_workers(kv); /* the mean of the workers' gradients */
    TRY(pst_kv_set_optimizer(kv, &optimizer));
    TRY(pst_kv_init(kv, "w", w, 1, INPUTS));
    for (int step = 1; step <= STEPS; step++) {
        double loss = gradient_of(w, gradient, &seed);
        TRY(pst_kv_pushpull(kv, "w", gradient, w, 0));
        TRY(pst_kv_wait(kv, "w")); /* w is the new value now */
        if (pst_kv_rank(kv) == 0 && step % 50 == 0) printf("step %d  loss %.6f\n", step, loss);
    }
    printf("worker %u of %u: w[0] %.9g, w[%d] %.9g\n", pst_kv_rank(kv), pst_kv_workers(kv), w[0],
           INPUTS - 1, w[INPUTS - 1]);
    return PST_OK;
}

int main(int argc, char **argv) {
    pst_kv_options options = {.size = sizeof options, .servers = argc > 1 ? atoi(argv[1]) : 0};
    pst_kv *kv;
    pst_status status = pst_kv_open("dist_sync", &options, &kv);
    if (status == PST_OK && kv) status = train(kv); /* NULL: this process has served */
    if (status == PST_OK) status = pst_kv_close(kv);
    if (status != PST_OK) fprintf(stderr, "kv: %s\n", pst_error());
    return pst_status_exit(status);
}
