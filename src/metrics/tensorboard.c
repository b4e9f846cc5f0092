/* The numbers of metrics.jsonl for TensorBoard, grouped by subject; and the run file. */
#include "base/log.h"
#include "metrics/parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_SCALARS = 14 + PST_EVALUATE_PARTS };

static void complain(pst_tensorboard *b) {
    if (!b->complained++)
        pst_log(PST_LOG_ERROR,
                "cannot write events for TensorBoard (%s); training continues without them",
                pst_error());
}

/* The resolved run file as text, malloc'd; NULL: no memory. */
static char *run_file(const pst_config *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    pst_status status = pst_config_print(config, f);
    if (fclose(f) == 0 && status == PST_OK) return text;
    free(text);
    return NULL;
}

static pst_status open_events(const pst_prepared *p, const char *folder, uint64_t step,
                              pst_tensorboard *b) {
    char path[1024];
    b->n_rank = p->options.n_rank;
    b->scalar = calloc(FIXED_SCALARS + b->n_rank, sizeof *b->scalar);
    b->rank_tag = calloc(b->n_rank, sizeof *b->rank_tag);
    char *text = run_file(p->config);
    if (!b->scalar || !b->rank_tag || !text) {
        free(text);
        return pst_fail(PST_ENOMEM, "no memory");
    }
    for (uint32_t r = 0; r < b->n_rank; r++)
        snprintf(b->rank_tag[r], sizeof b->rank_tag[r], "memory/resident_bytes_rank_%u", r);
    snprintf(path, sizeof path, "%s/tb", folder);
    pst_status status =
        pst_events_open(path, step + 1, FIXED_SCALARS + b->n_rank, "run.yaml", text, &b->events);
    free(text);
    return status;
}

void pst_tensorboard_open(const pst_prepared *p, const char *folder, uint64_t step,
                          pst_tensorboard *b) {
    *b = (pst_tensorboard){0};
    if (open_events(p, folder, step, b) != PST_OK) complain(b);
}

void pst_tensorboard_close(pst_tensorboard *b) {
    pst_events_close(b->events);
    free(b->scalar);
    free(b->rank_tag);
    *b = (pst_tensorboard){0};
}

static uint32_t add_parts(const pst_metrics_step *s, pst_events_scalar *out) {
    static const struct {
        const char *key, *tag;
    } tags[] = {{"masked_loss", "masked_loss/train"},
                {"next_sentence_loss", "next_sentence_loss/train"},
                {"next_sentence_accuracy", "next_sentence_accuracy/train"},
                {"accuracy", "accuracy/train"}};
    pst_evaluate_part part[PST_EVALUATE_PARTS];
    const uint32_t parts = pst_evaluate_parts(s->loss, s->next_sentence, s->accuracy, part);
    uint32_t n = 0;
    for (uint32_t i = 0; i < parts; i++)
        for (size_t k = 0; k < sizeof tags / sizeof *tags; k++)
            if (!strcmp(tags[k].key, part[i].key) && isfinite(part[i].value))
                out[n++] = (pst_events_scalar){tags[k].tag, part[i].value};
    return n;
}

void pst_tensorboard_step(pst_tensorboard *b, const pst_metrics_step *s, const pst_report *report,
                          double tokens_per_s, double mfu) {
    uint32_t n = 0;
    if (!b->events) return;
    if (isfinite(s->loss)) b->scalar[n++] = (pst_events_scalar){"loss/train", s->loss};
    if (isfinite(s->grad_norm))
        b->scalar[n++] = (pst_events_scalar){"train/grad_norm", s->grad_norm};
    if (isfinite(s->bits_per_byte))
        b->scalar[n++] = (pst_events_scalar){"bits_per_byte/train", s->bits_per_byte};
    n += add_parts(s, b->scalar + n);
    b->scalar[n++] = (pst_events_scalar){"train/lr", s->lr};
    b->scalar[n++] = (pst_events_scalar){"speed/tokens_per_s", tokens_per_s};
    b->scalar[n++] = (pst_events_scalar){"speed/mfu", mfu};
    b->scalar[n++] = (pst_events_scalar){"step_ms/measured", s->step_s * 1e3};
    b->scalar[n++] = (pst_events_scalar){"step_ms/predicted", s->predicted_step_s * 1e3};
    b->scalar[n++] = (pst_events_scalar){"step_ms/data_wait", s->data_wait_s * 1e3};
    b->scalar[n++] = (pst_events_scalar){"bubble/measured", s->bubble};
    b->scalar[n++] = (pst_events_scalar){"bubble/predicted", s->predicted_bubble};
    if (s->post) b->scalar[n++] = (pst_events_scalar){"train/rolled_back_ranks", s->rolled_back};
    if (s->scales) {
        b->scalar[n++] = (pst_events_scalar){"train/loss_scale", s->loss_scale};
        b->scalar[n++] = (pst_events_scalar){"train/skipped_steps", (double)s->skipped};
    }
    for (uint32_t r = 0; r < b->n_rank; r++)
        b->scalar[n++] = (pst_events_scalar){b->rank_tag[r], (double)report[r].resident_bytes};
    if (pst_events_scalars(b->events, s->step, b->scalar, n) != PST_OK) complain(b);
}

void pst_tensorboard_validation(pst_tensorboard *b, const char *set, uint64_t step,
                                const pst_evaluation *e) {
    char loss[80], bits[80], tag[PST_EVALUATE_PARTS][80];
    uint32_t n = 0;
    pst_events_scalar scalar[2 + PST_EVALUATE_PARTS];
    pst_evaluate_part part[PST_EVALUATE_PARTS];
    const uint32_t parts = pst_evaluate_parts(e->loss, e->next_sentence, e->accuracy, part);
    snprintf(loss, sizeof loss, "loss/validation%s%s", *set ? "_" : "", set);
    snprintf(bits, sizeof bits, "bits_per_byte/validation%s%s", *set ? "_" : "", set);
    if (!b->events || !e->tokens) return;
    if (isfinite(e->loss)) scalar[n++] = (pst_events_scalar){loss, e->loss};
    if (isfinite(e->bits_per_byte)) scalar[n++] = (pst_events_scalar){bits, e->bits_per_byte};
    for (uint32_t i = 0; i < parts; i++) {
        snprintf(tag[i], sizeof tag[i], "%s/validation%s%.44s", part[i].key, *set ? "_" : "", set);
        if (isfinite(part[i].value)) scalar[n++] = (pst_events_scalar){tag[i], part[i].value};
    }
    if (n && pst_events_scalars(b->events, step, scalar, n) != PST_OK) complain(b);
}
