/* The suites of `penstock bench`. Each measures, returns its results as a JSON object, and
 * prints such an object as text. */
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
    const pst_config *config; /* configuration with the model to measure */
    uint32_t threads;
    /* suite profile: what to measure (profile.h); else NULL */
    const struct pst_profile_request *profile;
} pst_bench;

typedef struct {
    const char *name;
    /* measure: NULL if the suite runs in ranks; *found is owned by the caller */
    pst_status (*measure)(const pst_bench *b, json_t **found);
    /* rank: runs the suite in one rank; *found is taken from rank 0 */
    pst_status (*rank)(const pst_bench *b, pst_world *world, pst_transport *t, json_t **found);
    void (*print)(json_t *found, FILE *out);
} pst_bench_suite;

/* device: finds the device that the options name; EINPUT if there is none or the device computes
 * nothing. precisions: calls `measure` for each precision of the options; `both` omits bf16 if the
 * device does not support bf16. */
typedef pst_status (*pst_bench_precision)(const pst_bench *b, const pst_device_ops *ops,
                                          pst_dtype dtype, json_t *list);
pst_status pst_bench_device(const pst_bench *b, const pst_device_ops **ops);
pst_status pst_bench_precisions(const pst_bench *b, const pst_device_ops *ops,
                                pst_bench_precision measure, json_t *list);

/* NULL after the last suite. */
const char *pst_bench_suite_name(uint32_t i);

/* generate: bench_generate.c. */
pst_status pst_bench_generate_measure(const pst_bench *b, json_t **found);
void pst_bench_generate_print(json_t *found, FILE *out);
/* step: bench_step.c. */
pst_status pst_bench_step_measure(const pst_bench *b, json_t **found);
void pst_bench_step_print(json_t *found, FILE *out);
/* kernels: bench_kernels.c measures, bench_kernels_text.c prints. */
pst_status pst_bench_kernels_measure(const pst_bench *b, json_t **found);
void pst_bench_kernels_print(json_t *found, FILE *out);
/* bench_ranks.c: suites that run in ranks. measure: starts the program again as n ranks. started:
 * the suite for which this process was started as a rank, NULL: none. run: runs the suite in a
 * rank; *found is NULL in ranks that print nothing. */
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
