/* The losses of given targets under a trained model, without a backward pass. */
#ifndef PST_GENERATE_SCORER_H
#define PST_GENERATE_SCORER_H
#include "generate/source.h"
#include "group/group.h"

typedef struct {
    pst_prepared *p;
    pst_group *group;
    uint32_t samples, positions, vocabulary; /* of a run */
    uint32_t output;
    uint64_t n_loss; /* of a run */
    float *losses;
    /* outputs beside the losses of targets, [samples] each; PST_NONE: the model has none: losses
     * whose mean is over samples, and hits (pst_attr) */
    uint32_t of_samples, hits;
    float *numbers; /* [samples] of pst_scorer_read */
} pst_scorer;

/* samples: computed together; positions: of a sample, at most the model's context; 0: the context.
 * `source` is borrowed; the caller closes *out. */
pst_status pst_scorer_open(const pst_source *source, uint32_t samples, uint32_t positions,
                           pst_scorer *out);
void pst_scorer_close(pst_scorer *s);
/* A copy of an array of all samples to the data tensor with this name; EINPUT: the model has none.
 */
pst_status pst_scorer_put(const pst_scorer *s, const char *name, const int32_t *from);
/* Runs the model. *losses: [samples][targets of a sample], in nats, 0 for the target -1; valid
 * until the next run. */
pst_status pst_scorer_run(const pst_scorer *s, const float **losses);
/* *numbers: [samples] of the last run, of the output of_samples or hits, which is not PST_NONE;
 * valid until the next call. */
pst_status pst_scorer_read(const pst_scorer *s, uint32_t output, const float **numbers);
#endif
