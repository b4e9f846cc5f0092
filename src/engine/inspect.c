/* `penstock inspect`: shows what stands in a checkpoint, a safetensors file or a plan, and what a run file becomes:
 * graph, plan, schedule, instructions, memory. */
#include "engine/checkpoint.h"
#include "engine/prepare.h"
#include "engine/safetensors.h"
#include "penstock/run.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pst_status inspect_safetensors(const char *path, FILE *out) {
    pst_st_file *f;
    uint64_t elements = 0;
    PST_TRY(pst_st_open(path, &f));
    for (uint32_t i = 0; i < f->n_meta; i++) fprintf(out, "%s: %s\n", f->meta_key[i], f->meta_value[i]);
    for (uint32_t i = 0; i < f->n_entry; i++) {
        const pst_st_entry *e = &f->entry[i];
        uint64_t n = 1;
        fprintf(out, "%-48s %-5s [", e->name, e->dtype);
        for (uint32_t d = 0; d < e->n_dim; d++) fprintf(out, d ? ",%" PRIu64 : "%" PRIu64, e->dim[d]), n *= e->dim[d];
        fprintf(out, "] %" PRIu64 " bytes\n", e->bytes);
        elements += n;
    }
    fprintf(out, "%u tensors, %" PRIu64 " elements\n", f->n_entry, elements);
    pst_st_close(f);
    return PST_OK;
}

/* --- run files -------------------------------------------------------------------------------------------------- */

static void print_memory(const pst_prepared *p, FILE *out) {
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        fprintf(out, "rank %u\n", r);
        pst_layout_print(p->layout[r], p->graph, out);
    }
}

static pst_status show(const pst_prepared *p, const char *what, FILE *out) {
    if (!strcmp(what, "graph")) return pst_graph_print(p->graph, out);
    if (!strcmp(what, "tape")) return pst_tape_print(p->cut->tape, p->graph, out);
    if (!strcmp(what, "plan")) return pst_plan_print(p->plan, p->graph, out);
    if (!strcmp(what, "schedule")) return pst_schedule_print(p->schedule, out);
    if (!strcmp(what, "instructions")) return pst_job_print(p->job, out);
    if (!strcmp(what, "memory")) return print_memory(p, out), PST_OK;
    return pst_fail(PST_EINPUT, "cannot show '%s' of a run file (there are: graph, tape, plan, schedule, instructions, memory)",
                    what);
}

static pst_status inspect_run(const pst_inspect_options *o, FILE *out) {
    pst_config *c = NULL;
    pst_prepared *p = NULL;
    pst_prepare_options options = {.threads = 1, .isa = pst_cpu_isa()};
    PST_TRY(pst_config_load(o->path, NULL, 0, &c));
    pst_status status = pst_prepare_ranks(c, o->ranks, &options.n_rank);
    options.vocabulary = pst_data_vocabulary(c->data.tokenizer);
    if (c->parallel.threads) options.threads = (uint32_t)c->parallel.threads;
    options.n_eval_micro = (uint32_t)(c->train.batch / c->train.micro_batch);
    if (status == PST_OK) status = pst_prepare(c, &options, &p);
    if (status == PST_OK) status = show(p, o->what && *o->what ? o->what : "plan", out);
    pst_prepared_close(p);
    pst_config_close(c);
    return status;
}

/* --- plans ------------------------------------------------------------------------------------------------------ */

static pst_status inspect_plan(const char *path, FILE *out) {
    pst_plan *plan;
    PST_TRY(pst_plan_parse(path, &plan));
    fprintf(out, "%s, %u ranks, %u chunks, %u micro-batches of %u\n", plan->schedule, plan->n_rank, plan->n_chunk,
            plan->n_micro, plan->micro_batch);
    for (uint32_t c = 0; c < plan->n_chunk; c++) {
        uint32_t first = PST_NONE, last = 0;
        for (uint32_t i = 0; i < plan->n_node; i++)
            if (plan->chunk_of_node[i] == c) first = first == PST_NONE ? i : first, last = i;
        fprintf(out, "chunk %u on rank %u: operators %u to %u\n", c, plan->rank_of_chunk[c], first, last);
    }
    for (uint32_t r = 0; r < plan->n_rank; r++) fprintf(out, "rank %u: predicted peak %" PRIu64 " bytes\n", r, plan->peak_bytes[r]);
    fprintf(out, "predicted: step %.3f ms, flush %.3f ms, bubble %.2f%%\n", (double)plan->step_ns * 1e-6,
            (double)plan->flush_ns * 1e-6, plan->bubble * 100);
    pst_plan_close(plan);
    return PST_OK;
}

static int file_says(const char *path, const char *word) {
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    FILE *f = fopen(path, "r");
    while (f && !found && getline(&line, &room, f) > 0) found = strstr(line, word) != NULL;
    if (f) fclose(f);
    free(line);
    return found;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

pst_status pst_inspect(const pst_inspect_options *o, FILE *out) {
    struct stat s;
    if (stat(o->path, &s) != 0) return pst_fail(PST_EINPUT, "%s: %s", o->path, strerror(errno));
    if (S_ISDIR(s.st_mode)) return pst_ckpt_print(o->path, out);
    if (ends_with(o->path, ".safetensors")) return inspect_safetensors(o->path, out);
    if (file_says(o->path, "graph_hash:")) return inspect_plan(o->path, out);
    return inspect_run(o, out);
}
