/* One training run in this process: what train.c (the loop), feed.c (data in, losses out) and save.c (checkpoints)
 * share. */
#ifndef PST_ENGINE_TRAINER_H
#define PST_ENGINE_TRAINER_H
#include "engine/group.h"
#include "engine/metrics.h"
#include "penstock/run.h"

typedef struct {
    const pst_config *config;
    const pst_train_options *options;
    pst_world *world;               /* until the group takes it over */
    pst_group *group;
    pst_prepared *p;
    pst_data *data;
    pst_metrics *metrics;           /* rank 0's process only */
    pst_fit *fit;
    pst_report *report;             /* [n_rank] of the last step */
    char folder[768];               /* runs/NAME */
    uint64_t step;                  /* optimizer steps done */
    double validation_loss, best_loss; /* the last one, NaN when there is none; the best so far, infinity */
    uint64_t checkpointed;          /* step of the last checkpoint written or resumed from, UINT64_MAX none */
} pst_trainer;

/* feed.c: fills data tensors of every local rank for the training batch that starts at `sample`. */
pst_status pst_feed_batch(pst_trainer *t, uint64_t sample);
/* Mean loss over the whole validation split (nats per token), the same bits on every rank; *tokens: how many. NaN and
 * 0 when the split is empty. */
pst_status pst_feed_validate(pst_trainer *t, double *loss, uint64_t *tokens);

/* save.c: writes checkpoint `t->step`, collective; path receives its folder. A failure to write is returned but leaves
 * everything usable. */
pst_status pst_save(pst_trainer *t, char *path, size_t bytes);
/* Reads the newest complete checkpoint under t->options->resume and sets t->step; collective. */
pst_status pst_save_resume(pst_trainer *t);
/* XXH64 of all weights (docs/formats.md), collective. */
pst_status pst_save_weights_hash(pst_trainer *t, uint64_t *hash);
/* Weights of a Hugging Face file (model.weights), collective. */
pst_status pst_save_import(pst_trainer *t, const char *path);
#endif
