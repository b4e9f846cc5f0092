/* How many samples each step trains on: train.batch, or with train.batch_warmup fewer at first. The
 * table depends on the run file alone, so it is the same in every layout. Pure functions. */
#ifndef PST_PREPARE_BATCHES_H
#define PST_PREPARE_BATCHES_H
#include <stdint.h>

enum { PST_BATCHES = 16 }; /* most sizes of a run */

/* Steps with equally large batches. */
typedef struct {
    uint64_t step, sample; /* the first step, counted from 0; the samples of all steps before it */
    uint64_t size;         /* samples of each step */
} pst_batches_row;
typedef struct {
    uint32_t n;
    pst_batches_row row[PST_BATCHES]; /* sizes ascend; the last row has no end */
} pst_batches;

/* Batches of `batch` samples. With 0 < from < batch, where `from` divides `batch`: the first have
 * `from` samples, and the size grows in equal steps, by multiples of `from`, until the step that
 * begins with sample tokens / per_sample, or the first one after it, has `batch` samples. tokens:
 * at most 10^17; per_sample: tokens of a sample. */
typedef struct {
    uint64_t batch, from, tokens, per_sample;
} pst_batches_spec;
void pst_batches_fill(const pst_batches_spec *spec, pst_batches *out);

/* Samples of a step. */
uint64_t pst_batches_size(const pst_batches *b, uint64_t step);
/* Samples of all steps before `step`. */
uint64_t pst_batches_before(const pst_batches *b, uint64_t step);
/* The smallest number of steps that have at least so many samples. */
uint64_t pst_batches_steps(const pst_batches *b, uint64_t samples);
#endif
