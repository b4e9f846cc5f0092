/* The suites of `penstock bench`. Each measures, gives its findings as a JSON object, and prints
 * such an object as text. */
#ifndef PST_COMMANDS_BENCH_H
#define PST_COMMANDS_BENCH_H
#include "base/device.h"
#include "base/dtype.h"
#include "base/transport.h"
#include "config/config.h"
#include "penstock/run.h"
#include <jansson.h>

typedef struct {
    const pst_bench_options *options;
    const pst_config *config; /* whose model is measured */
    uint32_t threads;
    /* suite profile: what is measured (profile.h); else NULL */
    const struct pst_profile_take *profile;
} pst_bench;

typedef struct {
    const char *name;
    /* *found is the caller's; NULL: it runs in ranks */
    pst_status (*measure)(const pst_bench *b, json_t **found);
    /* What one of the ranks does; *found is taken from rank 0. */
    pst_status (*rank)(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
    void (*print)(json_t *found, FILE *out);
} pst_bench_suite;

/* On which device (EINPUT: there is none, or it computes nothing); in each of the precisions that
 * are asked for, of which `both` leaves out bf16 where nothing computes in it. */
typedef pst_status (*pst_bench_precision)(const pst_bench *b, const pst_device_ops *ops,
                                          pst_dtype dtype, json_t *list);
pst_status pst_bench_device(const pst_bench *b, const pst_device_ops **ops);
pst_status pst_bench_precisions(const pst_bench *b, const pst_device_ops *ops,
                                pst_bench_precision measure, json_t *list);

/* NULL after the last. */
const char *pst_bench_suite_name(uint32_t i);

/* step: bench_step.c. */
pst_status pst_bench_step_measure(const pst_bench *b, json_t **found);
void pst_bench_step_print(json_t *found, FILE *out);
/* kernels: bench_kernels.c measures, bench_kernels_text.c prints. */
pst_status pst_bench_kernels_measure(const pst_bench *b, json_t **found);
void pst_bench_kernels_print(json_t *found, FILE *out);
/* Suites that run in ranks, bench_ranks.c. measure: starts the program again as n ranks. As one of
 * them (or of a launcher's): the name of the suite that was started, NULL: somebody else has
 * started this; run, with *found NULL where it is not this process that prints. */
pst_status pst_bench_ranks_measure(const pst_bench *b, const pst_bench_suite *suite, uint32_t n,
                                   json_t **found);
const char *pst_bench_ranks_started(void);
pst_status pst_bench_ranks_run(const pst_bench *b, const pst_bench_suite *suite, json_t **found);

pst_status pst_bench_p2p_rank(const pst_bench *b, pst_world *world, pst_transport *t,
                              json_t **found);
void pst_bench_p2p_print(json_t *found, FILE *out);
pst_status pst_bench_collectives_rank(const pst_bench *b, pst_world *world, pst_transport *t,
                                      json_t **found);
void pst_bench_collectives_print(json_t *found, FILE *out);
#endif
