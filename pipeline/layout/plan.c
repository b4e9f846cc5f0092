/* A plan as a value: open, check, print. plan_parse.c reads back exactly what print writes. */
#include "base/utf8.h"
#include "config/yaml.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_plan_open(const pst_layout *layout, uint64_t graph_hash, pst_plan **plan) {
    pst_plan *p = calloc(1, sizeof *p);
    pst_status status = p ? pst_layout_copy(layout, &p->layout) : pst_no_memory("for a plan");
    if (p) p->graph_hash = graph_hash;
    if (status == PST_OK) {
        p->peak_bytes = calloc(layout->pipeline + (size_t)1, sizeof *p->peak_bytes);
        if (!p->peak_bytes) status = pst_no_memory("for a plan");
    }
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}

void pst_plan_close(pst_plan *plan) {
    if (!plan) return;
    pst_layout_close(&plan->layout);
    free(plan->peak_bytes);
    free(plan->cluster);
    free(plan->run);
    for (uint32_t i = 0; i < plan->n_override; i++) free(plan->override[i]);
    free(plan->override);
    free(plan->choice);
    free(plan);
}

pst_status pst_plan_set_text(char **text, const char *to) {
    const char *at = to ? to : "";
    while (*at && pst_utf8_bytes(at)) at += pst_utf8_bytes(at);
    char *copy = to && *to && !*at ? strdup(to) : NULL;
    if (to && *to && !*at && !copy) return pst_fail(PST_ENOMEM, "no memory for a plan");
    free(*text);
    *text = copy;
    return PST_OK;
}

pst_status pst_plan_set_choices(pst_plan *plan, const pst_choice *choice, uint32_t n) {
    pst_choice *copy = n ? malloc(n * sizeof *copy) : NULL;
    if (n && !copy) return pst_fail(PST_ENOMEM, "no memory for a plan");
    if (n) memcpy(copy, choice, n * sizeof *copy);
    free(plan->choice);
    plan->choice = copy;
    plan->n_choice = n;
    return PST_OK;
}

pst_grid pst_plan_grid(const pst_plan *p) {
    const pst_layout *l = &p->layout;
    return (pst_grid){l->pipeline, l->data ? l->data : 1, l->tensor ? l->tensor : 1,
                      l->tensor_before, l->servers};
}

uint32_t pst_plan_job_ranks(const pst_plan *p) { return pst_grid_size(pst_plan_grid(p)); }

static pst_status copy_overrides(const pst_plan *from, pst_plan *p) {
    if (!from->n_override) return PST_OK;
    p->override = calloc(from->n_override, sizeof *p->override);
    if (!p->override) return pst_no_memory("for a plan");
    for (; p->n_override < from->n_override; p->n_override++) {
        char *text = strdup(from->override[p->n_override]);
        if (!text) return pst_no_memory("for a plan");
        p->override[p->n_override] = text;
    }
    return PST_OK;
}

pst_status pst_plan_copy(const pst_plan *from, pst_plan **plan) {
    pst_plan *p;
    PST_TRY(pst_plan_open(&from->layout, from->graph_hash, &p));
    p->step_ns = from->step_ns;
    p->flush_ns = from->flush_ns;
    p->bound_ns = from->bound_ns;
    p->bubble = from->bubble;
    memcpy(p->peak_bytes, from->peak_bytes, from->layout.pipeline * sizeof *p->peak_bytes);
    pst_status status = pst_plan_set_text(&p->cluster, from->cluster);
    if (status == PST_OK) status = pst_plan_set_text(&p->run, from->run);
    if (status == PST_OK) status = pst_plan_set_choices(p, from->choice, from->n_choice);
    if (status == PST_OK) status = copy_overrides(from, p);
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}

/* --- check ------------------------------------------------------------------------------------ */

static pst_status check_sizes(const pst_layout *p) {
    const pst_schedule_row *row;
    pst_status status = pst_schedule_find(p->schedule, &row);
    if (status != PST_OK) return pst_fail_in(status, "plan");
    if (!p->pipeline || !p->n_micro || !p->micro_batch) {
        return pst_fail(
            PST_EINPUT,
            "plan: ranks is %u, micro_batches %u and micro_batch %u; expected 1 or more of each",
            p->pipeline, p->n_micro, p->micro_batch);
    }
    if (p->rest >= p->micro_batch)
        return pst_fail(PST_EINPUT,
                        "plan: first_micro_batch is %u; expected less than micro_batch, %u",
                        p->rest, p->micro_batch);
    if (p->n_chunk < p->pipeline) {
        return pst_fail(PST_EINPUT,
                        "plan: %u chunks for %u ranks; expected one or more chunks per rank",
                        p->n_chunk, p->pipeline);
    }
    if (p->n_chunk > p->n_item) {
        return pst_fail(
            PST_EINPUT,
            "plan: %u chunks, but only %u operators; expected one or more operators per chunk",
            p->n_chunk, p->n_item);
    }
    return PST_OK;
}

/* The chunks cover all operators in order, and none is empty. */
static pst_status check_cut(const pst_layout *p) {
    if (!p->first_item || !p->rank_of_chunk || p->n_recompute != p->n_chunk)
        return pst_fail(PST_EINPUT, "plan: the cut is missing; expected operators, a rank and a "
                                    "recomputation mode for each chunk");
    if (p->first_item[0] || p->first_item[p->n_chunk] != p->n_item)
        return pst_fail(PST_EINPUT, "plan: the chunks cover operators [%u, %u); expected [0, %u)",
                        p->first_item[0], p->first_item[p->n_chunk], p->n_item);
    for (uint32_t c = 0; c < p->n_chunk; c++)
        if (p->first_item[c] >= p->first_item[c + 1])
            return pst_fail(PST_EINPUT,
                            "plan: chunk %u of %u has no operators; expected one or more", c,
                            p->n_chunk);
    return PST_OK;
}

static pst_status check_ranks(const pst_layout *p) {
    uint8_t *busy = calloc(p->pipeline, 1);
    if (!busy) return pst_fail(PST_ENOMEM, "no memory to check a plan of %u ranks", p->pipeline);
    pst_status status = PST_OK;
    for (uint32_t c = 0; c < p->n_chunk && status == PST_OK; c++) {
        if (p->rank_of_chunk[c] < p->pipeline) {
            busy[p->rank_of_chunk[c]] = 1;
        } else {
            status = pst_fail(PST_EINPUT, "plan: chunk %u is on rank %u; expected a rank below %u",
                              c, p->rank_of_chunk[c], p->pipeline);
        }
    }
    for (uint32_t r = 0; r < p->pipeline && status == PST_OK; r++) {
        if (!busy[r])
            status = pst_fail(PST_EINPUT, "plan: rank %u has no chunk; expected one or more", r);
    }
    free(busy);
    return status;
}

pst_status pst_plan_check(const pst_plan *p, const pst_graph *graph) {
    if (!p || !graph)
        return pst_fail(PST_EINPUT, "pst_plan_check: %s is NULL", p ? "graph" : "plan");
    const pst_layout *l = &p->layout;
    PST_TRY(check_sizes(l));
    if (l->n_item != graph->n_node) {
        return pst_fail(PST_EINPUT,
                        "plan: made for a model with %u operators, but this model has %u",
                        l->n_item, graph->n_node);
    }
    if (l->micro_batch != graph->micro_batch) {
        return pst_fail(PST_EINPUT,
                        "plan: made for micro-batches of %u samples, but the model is built for %u",
                        l->micro_batch, graph->micro_batch);
    }
    uint64_t hash = pst_graph_hash(graph);
    if (p->graph_hash != hash) {
        return pst_fail(PST_EINPUT,
                        "plan: made for another model (graph_hash is %016" PRIx64
                        ", but this model has hash %016" PRIx64 ")",
                        p->graph_hash, hash);
    }
    PST_TRY(check_cut(l));
    return check_ranks(l);
}

/* --- questions -------------------------------------------------------------------------------- */

uint32_t pst_plan_ranks(const pst_plan *p) { return p ? p->layout.pipeline : 0; }
uint32_t pst_plan_micro_batches(const pst_plan *p) { return p ? p->layout.n_micro : 0; }
const char *pst_plan_schedule(const pst_plan *p) { return p ? p->layout.schedule : ""; }
double pst_plan_step_s(const pst_plan *p) { return p ? (double)p->step_ns * 1e-9 : 0; }
double pst_plan_bubble(const pst_plan *p) { return p ? p->bubble : 0; }
uint64_t pst_plan_peak_bytes(const pst_plan *p, uint32_t rank) {
    return p && rank < p->layout.pipeline ? p->peak_bytes[rank] : 0;
}

/* --- print ------------------------------------------------------------------------------------ */

/* For a YAML comment: a name must not end the line. */
static void print_name(const char *name, FILE *out) {
    for (; *name; name++) fputc(isprint((unsigned char)*name) ? *name : '?', out);
}

static void print_stages(const pst_plan *p, const pst_graph *graph, FILE *out) {
    if (graph && p->graph_hash != pst_graph_hash(graph))
        graph = NULL; /* names of other operators: of a rank's part of the graph */
    fputs("chunks:               # nodes: first and last operator; a chunk is a contiguous part of "
          "the model\n",
          out);
    const pst_layout *l = &p->layout;
    for (uint32_t c = 0; c < l->n_chunk; c++) {
        uint32_t first = l->first_item[c], last = l->first_item[c + 1] - 1;
        char recompute[PST_RECOMPUTE_TEXT];
        fprintf(out, "  - {chunk: %u, rank: %u, nodes: [%u, %u], recompute: %s}", c,
                l->rank_of_chunk[c], first, last, pst_recompute_text(l->recompute[c], recompute));
        if (graph) {
            fputs("  # ", out);
            print_name(graph->node[first].name, out);
            fputs(" .. ", out);
            print_name(graph->node[last].name, out);
        }
        fputc('\n', out);
    }
}

static void print_list(const char *key, const uint32_t *item, uint32_t n, const char *comment,
                       FILE *out) {
    if (!item) return;
    fprintf(out, "%s: [", key);
    for (uint32_t i = 0; i < n; i++) fprintf(out, "%s%u", i ? ", " : "", item[i]);
    fprintf(out, "]  # %s\n", comment);
}

static void print_overrides(const pst_plan *p, FILE *out) {
    if (!p->n_override) return;
    fputs("overrides: [", out);
    for (uint32_t i = 0; i < p->n_override; i++) {
        fputs(i ? ", " : "", out);
        pst_yaml_print_text(p->override[i], out);
    }
    fputs("]  # command-line overrides of the run file\n", out);
}

/* The keys of the whole job: run file, cluster, replicas, tensor ranks, ZeRO, devices. */
static void print_job(const pst_plan *p, FILE *out) {
    if (p->run) {
        fputs("run: ", out);
        pst_yaml_print_text(p->run, out);
        fputs("  # run file of this plan\n", out);
        print_overrides(p, out);
    }
    if (p->cluster) {
        fputs("cluster: ", out);
        pst_yaml_print_text(p->cluster, out);
        fputc('\n', out);
    }
    const pst_layout *l = &p->layout;
    if (!l->data) return;
    fprintf(out, "data: %u              # replicas\n", l->data);
    fputs(l->tensor_before ? "tensor: [" : "", out);
    for (uint32_t s = 0; l->tensor_before && s < l->pipeline; s++)
        fprintf(out, "%s%u", s ? ", " : "", pst_grid_degree(pst_plan_grid(p), s));
    if (l->tensor_before) fputs("]  # tensor ranks of each stage\n", out);
    else fprintf(out, "tensor: %u            # tensor ranks per stage\n", l->tensor);
    fprintf(out, "sequence: %s\n", l->sequence ? "true" : "false");
    fprintf(out, "zero: %u\n", l->zero);
    if (l->servers)
        fprintf(out, "servers: %u           # of all stages\n", pst_grid_servers(pst_plan_grid(p)));
    print_list("replicas", l->micros, l->data, "micro-batches of each replica", out);
    print_list("devices", l->device, pst_plan_job_ranks(p), "device of the cluster for each rank",
               out);
}

static void print_choices(const pst_plan *p, FILE *out) {
    if (p->n_choice)
        fputs("products:             # fastest measured algorithm of each matrix product on these "
              "devices\n",
              out);
    for (uint32_t i = 0; i < p->n_choice; i++) {
        fputs("  - {of: ", out);
        pst_yaml_print_text(p->choice[i].of, out);
        fputs(", is: ", out);
        pst_yaml_print_text(p->choice[i].is, out);
        fputs("}\n", out);
    }
}

pst_status pst_plan_print(const pst_plan *p, const pst_graph *graph, FILE *out) {
    if (!p || !out) return pst_fail(PST_EINPUT, "pst_plan_print: %s is NULL", p ? "out" : "plan");
    fputs("# A plan of penstock: which rank runs which part of the model, and the predicted "
          "time and memory.\n",
          out);
    fprintf(out, "graph_hash: \"%016" PRIx64 "\"\n", p->graph_hash);
    fprintf(out, "schedule: %s\n", p->layout.schedule);
    fprintf(out, "ranks: %u             # number of pipeline stages\n", p->layout.pipeline);
    fprintf(out, "micro_batches: %u      # per optimizer step\n", p->layout.n_micro);
    fprintf(out, "micro_batch: %u        # samples per micro-batch\n", p->layout.micro_batch);
    if (p->layout.rest)
        fprintf(out, "first_micro_batch: %u   # samples of the step's first micro-batch\n",
                p->layout.rest);
    print_job(p, out);
    print_stages(p, graph, out);
    print_choices(p, out);
    fputs("predicted:\n", out);
    fprintf(out, "  step_ns: %" PRIu64 "    # flush included\n", p->step_ns);
    fprintf(out, "  flush_ns: %" PRIu64 "\n", p->flush_ns);
    if (p->bound_ns)
        fprintf(out, "  bound_ns: %" PRIu64 "    # lower bound over all layouts\n", p->bound_ns);
    fprintf(out, "  bubble: %.17g\n", p->bubble);
    fputs("  peak_bytes: [", out);
    for (uint32_t r = 0; r < p->layout.pipeline; r++)
        fprintf(out, "%s%" PRIu64, r ? ", " : "", p->peak_bytes[r]);
    fputs("]\n", out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "the plan could not be written") : PST_OK;
}
