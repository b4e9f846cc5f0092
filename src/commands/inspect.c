/* `penstock inspect`: shows the contents of a checkpoint, a safetensors file, a plan or a
 * graph's text, and what a run file leads to: graph, plan, schedule, instruction lists, memory. */
#include "base/hash.h"
#include "base/plural.h"
#include "base/sized.h"
#include "checkpoint/parts.h"
#include "checkpoint/saver.h"
#include "checkpoint/hf.h"
#include "commands/inspect_graph.h"
#include "run/plan_auto.h"
#include "prepare/planned.h"
#include "prepare/llmc.h"
#include "prepare/prepare.h"
#include "checkpoint/safetensors.h"
#include "run/setup.h"
#include "penstock/run.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* XXH3 of a tensor's bytes in the file. */
static pst_status hash_of(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                          uint64_t *hash) {
    uint8_t *bytes = malloc(e->bytes ? e->bytes : 1);
    if (!bytes) return pst_fail(PST_ENOMEM, "%s: no memory for tensor %s", f->path, e->name);
    pst_status status = pst_safetensors_read_bytes(f, e, 0, bytes, e->bytes);
    if (status == PST_OK) *hash = pst_hash_bytes(bytes, e->bytes);
    free(bytes);
    return status;
}

static pst_status print_tensor(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                               uint64_t *elements, FILE *out) {
    uint64_t n = 1, hash = 0;
    PST_TRY(hash_of(f, e, &hash));
    fprintf(out, "%-48s %-5s [", e->name, e->dtype);
    for (uint32_t d = 0; d < e->n_dim; d++) {
        fprintf(out, d ? ",%" PRIu64 : "%" PRIu64, e->dim[d]);
        n *= e->dim[d];
    }
    fprintf(out, "] %" PRIu64 " bytes  %016" PRIx64 "\n", e->bytes, hash);
    *elements += n;
    return PST_OK;
}

static pst_status inspect_safetensors(const char *path, FILE *out) {
    pst_safetensors_file *f;
    pst_status status = PST_OK;
    uint64_t elements = 0;
    PST_TRY(pst_safetensors_open(path, &f));
    for (uint32_t i = 0; i < f->n_meta; i++) /* hashes are printed with their tensors */
        if (strncmp(f->meta_key[i], PST_CKPT_HASH_KEY, strlen(PST_CKPT_HASH_KEY)))
            fprintf(out, "%s: %s\n", f->meta_key[i], f->meta_value[i]);
    for (uint32_t i = 0; i < f->n_entry && status == PST_OK; i++)
        status = print_tensor(f, &f->entry[i], &elements, out);
    if (status == PST_OK) fprintf(out, "%u tensors, %" PRIu64 " elements\n", f->n_entry, elements);
    pst_safetensors_close(f);
    return status;
}

static pst_status inspect_hf(const char *folder, FILE *out) {
    pst_model_config m;
    PST_TRY(pst_hf_config(folder, &m));
    const int llama = !strcmp(m.kind, "llama");
    const char *name = strcmp(m.kind, "bert") ? "GPT-2" : "BERT";
    fprintf(out, "Hugging Face %s: %u layers, %u heads, %u channels, context %u, vocabulary %u, ",
            llama ? "Llama" : name, m.layers, m.heads, m.channels, m.context, m.vocabulary);
    if (!llama) fputs(pst_activation_name(m.activation), out);
    else
        fprintf(out, "%u heads of keys and values, intermediate %u", m.llama.kv_heads,
                m.llama.intermediate);
    if (m.bert.labels) fprintf(out, ", %u labels", m.bert.labels);
    fprintf(out, "%s%s\n", *m.tokenizer ? ", tokenizer " : "", m.tokenizer);
    char *path = pst_ckpt_join(folder, "model.safetensors");
    pst_status status = path ? PST_OK : PST_ENOMEM;
    if (path && access(path, F_OK)) fputs("weights in shards, model-*.safetensors\n", out);
    else if (path) status = inspect_safetensors(path, out);
    free(path);
    return status;
}

static pst_status inspect_llmc(const char *path, FILE *out) {
    pst_llmc h;
    PST_TRY(pst_llmc_read(path, &h));
    fprintf(
        out,
        "GPT-2 of llm.c: %u layers, %u heads, %u channels, context %u, vocabulary %u in %u rows, "
        "%s, %" PRIu64 " elements\n",
        h.layers, h.heads, h.channels, h.context, h.vocabulary, h.rows, pst_dtype_name(h.type),
        pst_llmc_elements(&h));
    return PST_OK;
}

/* --- run files -------------------------------------------------------------------------------- */

static void print_memory(const pst_prepared *p, FILE *out) {
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        pst_memory_map_print(p->memory[r], p->graph, out);
    fprintf(out,
            "outside the arenas: at most %d MiB of checkpoint buffers per process, and the memory "
            "of libraries\n",
            PST_SAVER_THREADS * (PST_SHARD_PIECE >> 20));
}

static pst_status show(const pst_prepared *p, const char *what, FILE *out) {
    if (!strcmp(what, "graph")) return pst_graph_print(p->whole, out);
    if (!strcmp(what, "tape")) return pst_tape_print(p->cut->tape, p->graph, out);
    if (!strcmp(what, "plan"))
        return pst_plan_print(p->plan, p->grid.tensor_before ? p->whole : p->graph, out);
    if (!strcmp(what, "schedule")) return pst_schedule_print(p->schedule, out);
    if (!strcmp(what, "instructions")) return pst_job_print(p->job, out);
    if (!strcmp(what, "memory")) {
        print_memory(p, out);
        return PST_OK;
    }
    return pst_fail(
        PST_EINPUT,
        "--show '%s': expected graph, tape, plan, schedule, instructions or memory for a run file",
        what);
}

/* Its plan (NULL: none), ranks and threads; with parallel.plan auto the search uses this machine
 * as it is now. */
static pst_status take_plan(const pst_inspect_options *o, pst_config **c, pst_plan **plan,
                            pst_prepare_options *options) {
    if (!pst_config_is_auto(*c)) PST_TRY(pst_planned_config(c, plan));
    PST_TRY(pst_planned_ranks(*c, *plan, o->ranks, &options->n_rank));
    if ((*c)->parallel.threads) options->threads = (uint32_t)(*c)->parallel.threads;
    if (!pst_config_is_auto(*c)) return PST_OK;
    options->threads = pst_setup_threads(*c, NULL, options->n_rank);
    return pst_plan_auto_here(c, options->n_rank, plan);
}

static pst_status inspect_run(const pst_inspect_options *o, FILE *out) {
    pst_config *c = NULL;
    pst_plan *plan = NULL;
    pst_prepared *p = NULL;
    pst_prepare_options options = {.threads = 1};
    PST_TRY(pst_config_load(o->path, NULL, 0, &c));
    pst_status status = take_plan(o, &c, &plan, &options);
    options.plan = plan;
    options.isa = pst_prepare_isa_to_inspect(c);
    options.n_eval_micro = pst_config_micros(c);
    if (status == PST_OK) status = pst_prepare(c, &options, &p);
    if (status == PST_OK) status = show(p, *o->what ? o->what : "plan", out);
    pst_prepared_close(p);
    pst_plan_close(plan);
    pst_config_close(c);
    return status;
}

/* --- plans ------------------------------------------------------------------------------------ */

static void print_job(const pst_plan *plan, FILE *out) {
    pst_grid grid = pst_plan_grid(plan);
    const pst_layout *l = &plan->layout;
    char text[PST_GRID_TEXT], rest[PST_LAYOUT_REST_TEXT];
    pst_grid_text(grid, text);
    uint32_t n_rank = pst_grid_size(grid);
    fprintf(out, "%s, %u rank%s", l->schedule, n_rank, pst_plural(n_rank));
    if (*text) fprintf(out, " (%s)", text);
    fprintf(out, ", %u chunk%s, %u micro-batch%s of %u%s\n", l->n_chunk, pst_plural(l->n_chunk),
            l->n_micro, pst_plural_es(l->n_micro), l->micro_batch, pst_layout_rest_text(l, rest));
    for (uint32_t s = 0; grid.tensor_before && s < grid.pipeline; s++)
        fprintf(out, "%s%u%s", s ? ", " : "tensor ranks of each stage: ", pst_grid_degree(grid, s),
                s + 1 == grid.pipeline ? "\n" : "");
    if (grid.data > 1) fprintf(out, "zero %u", l->zero);
    for (uint32_t k = 0; grid.data > 1 && l->micros && k < grid.data; k++)
        fprintf(out, "%s%u", k ? ", " : ", micro-batches of each replica: ", l->micros[k]);
    if (grid.data > 1) fputc('\n', out);
    if (plan->run) fprintf(out, "from %s", plan->run);
    for (uint32_t i = 0; plan->run && i < plan->n_override; i++)
        fprintf(out, " %s", plan->override[i]);
    if (plan->run) fputc('\n', out);
    if (plan->cluster) fprintf(out, "for the cluster %s\n", plan->cluster);
}

static pst_status inspect_plan(const char *path, FILE *out) {
    pst_plan *plan;
    PST_TRY(pst_plan_load(path, &plan));
    const pst_layout *l = &plan->layout;
    const char *stage = pst_plan_job_ranks(plan) > l->pipeline ? "stage" : "rank";
    print_job(plan, out);
    for (uint32_t c = 0; c < l->n_chunk; c++) {
        fprintf(out, "chunk %u on %s %u: operators %u to %u", c, stage, l->rank_of_chunk[c],
                l->first_item[c], l->first_item[c + 1] - 1);
        char recompute[PST_RECOMPUTE_TEXT];
        if (l->recompute[c])
            fprintf(out, ", recomputation %s", pst_recompute_text(l->recompute[c], recompute));
        fputc('\n', out);
    }
    for (uint32_t r = 0; r < l->pipeline; r++)
        fprintf(out, "%s %u: predicted peak %" PRIu64 " bytes\n", stage, r, plan->peak_bytes[r]);
    fprintf(out, "predicted: step %.3f ms, flush %.3f ms, bubble %.2f%%\n",
            (double)plan->step_ns * 1e-6, (double)plan->flush_ns * 1e-6, plan->bubble * 100);
    if (plan->bound_ns)
        fprintf(out, "lower bound over all layouts %.3f ms: gap %.2f%%\n",
                (double)plan->bound_ns * 1e-6,
                ((double)plan->step_ns / (double)plan->bound_ns - 1) * 100);
    pst_plan_close(plan);
    return PST_OK;
}

/* A plan or a graph is recognized by its first lines. */
static int says(const char *path, const char *word) {
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, word) != NULL;
}

pst_status pst_inspect(const pst_inspect_options *options, FILE *out) {
    struct stat s;
    pst_inspect_options taken;
    const pst_inspect_options *o = &taken;
    PST_TRY(pst_sized_take("pst_inspect", options, &taken, sizeof taken));
    if (!o->path || !out)
        return pst_fail(PST_EINPUT, "pst_inspect: %s is NULL", out ? "path" : "out");
    if (!o->what) taken.what = "";
    if (stat(o->path, &s) != 0) return pst_fail(PST_EINPUT, "%s: %s", o->path, strerror(errno));
    PST_TRY(pst_hf_refuse_gguf(o->path));
    int folder = S_ISDIR(s.st_mode), hf = pst_hf_is(o->path),
        plan = !folder && !hf && says(o->path, "graph_hash:");
    int graph = !folder && !hf && !plan && says(o->path, "penstock-graph ");
    if (graph && !o->ranks) return pst_inspect_graph(o->path, o->what, out);
    if (!folder && !hf && !plan && !graph) return inspect_run(o, out);
    if (o->ranks || *o->what)
        return pst_fail(PST_EINPUT, "%s is not a run file; --show and --ranks need a run file",
                        o->path);
    if (plan) return inspect_plan(o->path, out);
    if (!hf) return pst_ckpt_print(o->path, out);
    if (pst_llmc_is(o->path)) return inspect_llmc(o->path, out);
    return folder ? inspect_hf(o->path, out) : inspect_safetensors(o->path, out);
}
