/* The processes of bench/kv.py: pushes and pulls `values` values of `bytes` bytes, `rounds` times,
 * and prints the seconds of each round on worker 0. */
#include <penstock/kv.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define TRY(call)                                                                                  \
    if ((status = (call)) != PST_OK) return status

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* value[0] is pushed, value[1] is pulled; both have n_key values of n elements. */
static pst_status round_of(pst_kv *kv, float *const value[2], uint64_t n_key, uint64_t n) {
    char key[32];
    pst_status status;
    for (uint64_t k = 0; k < n_key; k++) {
        snprintf(key, sizeof key, "%llu", (unsigned long long)k);
        TRY(pst_kv_pushpull(kv, key, value[0] + k * n, value[1] + k * n, 0));
    }
    return pst_kv_wait(kv, NULL);
}

static pst_status run(pst_kv *kv, uint64_t n_key, uint64_t n, int rounds) {
    float *value[2] = {calloc(n_key * n, sizeof(float)), calloc(n_key * n, sizeof(float))};
    char key[32];
    pst_status status;
    for (uint64_t i = 0; i < n_key * n; i++) value[0][i] = (float)(i % 1000);
    for (uint64_t k = 0; k < n_key; k++) {
        snprintf(key, sizeof key, "%llu", (unsigned long long)k);
        TRY(pst_kv_init(kv, key, value[1] + k * n, 1, n));
    }
    for (int r = 0; r < rounds; r++) {
        TRY(pst_kv_barrier(kv));
        double began = now();
        TRY(round_of(kv, value, n_key, n));
        if (pst_kv_rank(kv) == 0) printf("%.9f\n", now() - began);
    }
    for (uint64_t i = 0; i < n_key * n; i++)
        if (value[1][i] != (float)pst_kv_workers(kv) * value[0][i]) {
            fprintf(stderr, "kv: element %llu is %g\n", (unsigned long long)i, value[1][i]);
            abort();
        }
    free(value[0]);
    free(value[1]);
    return PST_OK;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: kv SERVERS VALUES BYTES ROUNDS\n");
        return 2;
    }
    pst_kv_options options = {.size = sizeof options, .servers = atoi(argv[1])};
    pst_kv *kv;
    pst_status status = pst_kv_open("dist_sync", &options, &kv);
    if (status == PST_OK && kv)
        status = run(kv, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10) / sizeof(float),
                     atoi(argv[4]));
    if (status == PST_OK) status = pst_kv_close(kv);
    if (status != PST_OK) fprintf(stderr, "kv: %s\n", pst_error());
    return pst_status_exit(status);
}
