/* The suites of `penstock bench`. Each measures, gives its findings as a JSON object, and prints such an object as text. */
#ifndef PST_ENGINE_BENCH_H
#define PST_ENGINE_BENCH_H
#include "config/config.h"
#include "penstock/run.h"
#include <jansson.h>

typedef struct {
    const pst_bench_options *options;
    const pst_config *config;   /* whose model is measured */
    uint32_t threads;
} pst_bench;

typedef struct {
    const char *name;
    pst_status (*measure)(const pst_bench *b, json_t **found); /* *found is the caller's */
    void (*print)(json_t *found, FILE *out);
} pst_bench_suite;

/* kernels: bench_kernels.c measures, bench_kernels_text.c prints. */
pst_status pst_bench_kernels_measure(const pst_bench *b, json_t **found);
void pst_bench_kernels_print(json_t *found, FILE *out);
/* p2p: starts the program again as two ranks. pst_bench_p2p_rank: this process is one of them; *found: NULL where somebody
 * else prints it. */
pst_status pst_bench_p2p_measure(const pst_bench *b, json_t **found);
pst_status pst_bench_p2p_rank(const pst_bench *b, json_t **found);
void pst_bench_p2p_print(json_t *found, FILE *out);
#endif
