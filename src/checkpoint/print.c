/* Prints a checkpoint for people, and checks that its bytes are unchanged. */
#include "checkpoint/base.h"
#include "checkpoint/parts.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_tensor(const pst_ckpt *c, const pst_ckpt_tensor *t, FILE *out) {
    char shape[96] = "", part[PST_CKPT_NAME];
    for (uint32_t k = 0; k < t->n_dim; k++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRIu64, k ? "," : "",
                 t->dim[k]);
    for (uint32_t i = 0; i < t->n_part; i++) {
        const pst_ckpt_part *p = &t->part[i];
        fprintf(out, "  %-44s [%s]%*s %016" PRIx64 "  %s\n",
                pst_ckpt_whole(t) ? t->name
                                  : pst_ckpt_part_name(t->name, &p->slice, p->from, p->to, part),
                shape, (int)(14 - strlen(shape)) > 0 ? (int)(14 - strlen(shape)) : 0, "", p->xxh3,
                c->file[p->file]);
    }
}

static void print_tensors(const pst_ckpt *c, FILE *out) {
    uint64_t elements = 0, bytes = 0;
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        print_tensor(c, &c->tensor[i], out);
        elements += c->tensor[i].elements;
        bytes += c->tensor[i].elements * pst_dtype_bytes(c->tensor[i].dtype);
    }
    fprintf(out, "%u tensors, %" PRIu64 " elements, %" PRIu64 " bytes\n", c->n_tensor, elements,
            bytes);
}

/* Checks every tensor's bytes against the hash in the index. */
static pst_status verify(const pst_ckpt *c) {
    uint64_t most = 1;
    for (uint32_t i = 0; i < c->n_tensor; i++)
        if (c->tensor[i].elements > most) most = c->tensor[i].elements;
    /* cannot overflow: the shards' headers were checked, and the files have these sizes */
    float *buffer = malloc(most * sizeof *buffer);
    pst_status status = buffer ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", c->path);
    for (uint32_t i = 0; i < c->n_tensor && status == PST_OK; i++)
        status = pst_ckpt_read(c, c->tensor[i].name, buffer, c->tensor[i].elements);
    free(buffer);
    return status;
}

/* Where the parameters are that the checkpoint lacks. */
static pst_status print_base(const pst_ckpt *c, FILE *out) {
    pst_config *config = NULL;
    pst_status status = pst_config_parse(c->config, "run.yaml of the checkpoint", NULL, 0, &config);
    if (status == PST_ENOMEM) return status;
    if (status != PST_OK) {
        pst_error_clear(); /* a program may write checkpoints with a text of its own */
        return PST_OK;
    }
    if (pst_ckpt_has_base(config) && c->info.base)
        fprintf(out, "frozen weights   %s %016" PRIx64 "\n", config->model.weights, c->info.base);
    else if (pst_ckpt_has_base(config)) fputs("frozen weights   of the seed\n", out);
    pst_config_close(config);
    return PST_OK;
}

/* What checkpoint.best and checkpoint.metric compare. */
static void print_best(const pst_ckpt_info *i, FILE *out) {
    const char *metric = strchr(i->best_of, ':');
    if (!metric && !isnan(i->chosen_loss))
        fprintf(out, "loss of %-8s %.6f\n", i->best_of, i->chosen_loss);
    if (!metric && !isnan(i->best_loss)) fprintf(out, "lowest so far    %.6f\n", i->best_loss);
    if (metric && !isnan(i->chosen_loss))
        fprintf(out, "accuracy         %.6f on %.*s\n", 1 - i->chosen_loss,
                (int)(metric - i->best_of), i->best_of);
    if (metric && isfinite(i->best_loss)) fprintf(out, "highest so far   %.6f\n", 1 - i->best_loss);
}

pst_status pst_ckpt_print(const char *path, FILE *out) {
    char *folder;
    pst_ckpt *c = NULL;
    PST_TRY(pst_ckpt_find(path, &folder));
    pst_status status = pst_ckpt_open(folder, &c);
    free(folder);
    if (status != PST_OK) return status;
    const pst_ckpt_info *i = &c->info;
    fprintf(out,
            "checkpoint       %s\nstep             %" PRIu64 "\nnext sample      %" PRIu64
            "\nseed             %" PRIu64 "\noptimizer        %s%s\n",
            c->path, i->step, i->next_sample, i->seed,
            *i->optimizer ? i->optimizer : "(weights only)",
            pst_ckpt_state_type(c) == PST_BF16 ? ", state in bf16" : "");
    if (!isnan(i->validation_loss)) fprintf(out, "validation loss  %.6f\n", i->validation_loss);
    print_best(i, out);
    fprintf(out, "model, data      %016" PRIx64 " %016" PRIx64 "\n", i->model_hash, i->data_hash);
    if (i->tokenizer) fprintf(out, "tokenizer        %016" PRIx64 "\n", i->tokenizer);
    status = print_base(c, out);
    print_tensors(c, out);
    if (status == PST_OK) status = verify(c);
    pst_ckpt_close(c);
    return status;
}
