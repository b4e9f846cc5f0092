/* penstock plan --graph: reads, solves, prints. */
#include "partition/foreign/import.h"
#include "base/plural.h"
#include "penstock/run.h"
#include "base/file.h"
#include "base/sized.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20, MOST_DEVICES = 4096 };

static const struct {
    const char *format, *model;
} formats[] = {[PST_IMPORT_DNN] = {"dnn-partitioning", "max-load"},
               [PST_IMPORT_PIPEDREAM] = {"PipeDream", "pipedream"},
               [PST_IMPORT_PIPER] = {"Piper", "piper"}};

/* --- options ---------------------------------------------------------------------------------- */

static pst_status check_model(const pst_import *im, const pst_plan_graph_options *o) {
    const char *own = formats[im->format].model;
    if (!o->cost_model || !*o->cost_model || !strcmp(o->cost_model, own)) return PST_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(o->cost_model, formats[i].model))
            return pst_fail(PST_EINPUT, "%s: a workload of %s needs cost model %s, not %s",
                            o->graph, formats[im->format].format, own, o->cost_model);
    return pst_fail(PST_EINPUT, "cost model '%.40s': expected max-load, pipedream or piper",
                    o->cost_model);
}

static pst_status apply_tensor(const pst_plan_graph_options *o, pst_tensor_problem *p) {
    if (o->devices > 0) p->devices = (uint32_t)o->devices;
    if (o->memory > 0) p->memory = o->memory;
    if (o->bandwidth > 0) p->bandwidth = o->bandwidth;
    return PST_OK;
}

static pst_status apply_dnn(const pst_plan_graph_options *o, pst_import *im) {
    uint32_t devices = 0;
    if (o->bandwidth > 0)
        return pst_fail(PST_EINPUT, "%s has transfer times; leave out --bandwidth", o->graph);
    if (o->devices > 0) im->kind[0].count = (uint32_t)o->devices;
    if (o->memory > 0) im->kind[0].memory = o->memory;
    for (uint32_t k = 0; k < im->n_kind; k++) devices += im->kind[k].count;
    if (devices) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s: maxFPGAs and maxCPUs are 0; set one of them, or give --devices", o->graph);
}

/* cluster: NULL: not given. */
static pst_status apply_pipedream(const pst_plan_graph_options *o, const pst_cluster *cluster,
                                  pst_import *im) {
    im->bandwidth = cluster ? pst_import_slowest_link(cluster) : 0;
    if (o->bandwidth > 0) im->bandwidth = o->bandwidth;
    if (!cluster && o->devices > 0) im->kind[0].count = (uint32_t)o->devices;
    if (cluster && !(im->bandwidth > 0 && isfinite(im->bandwidth)))
        return pst_fail(PST_EINPUT,
                        "%s has no links; give --bandwidth, or a link such as ib:400Gb/s",
                        o->cluster);
    if (!im->kind[0].count || !(im->bandwidth > 0))
        return pst_fail(PST_EINPUT, "%s gives no %s", o->graph,
                        im->kind[0].count ? "bandwidth; give --bandwidth, such as 25GB/s"
                                          : "number of devices; give --devices and --bandwidth");
    if (o->memory > 0)
        return pst_fail(PST_EINPUT,
                        "PipeDream's cost model supports no memory limit; leave out --memory");
    if (o->machines * o->devices > MOST_DEVICES)
        return pst_fail(PST_EINPUT, "too many devices; at most %d are supported", MOST_DEVICES);
    if (o->machines > 1 && !(o->between > 0))
        return pst_fail(PST_EINPUT,
                        "%s has no bandwidth between machines; give --between, such as 10GB/s",
                        o->graph);
    if (im->n_kind > 1 && o->compression > 0)
        return pst_fail(PST_EINPUT, "--compression needs devices of one kind; leave it out");
    im->straight = o->straight != 0;
    im->compression = o->compression;
    im->machines = o->machines > 1 ? (uint32_t)o->machines : 1;
    im->between = o->between > 0 ? o->between : im->bandwidth;
    return PST_OK;
}

static pst_status apply_to(const pst_plan_graph_options *o, const pst_cluster *cluster,
                           pst_import *im) {
    if (cluster && im->tensor)
        return pst_fail(PST_EINPUT,
                        "Piper's cost model supports only one kind of device; leave out --cluster");
    if (cluster && (o->devices > 0 || o->memory > 0 || o->machines > 0))
        return pst_fail(PST_EINPUT, "--cluster gives the devices and their memory; leave out "
                                    "--devices, --memory and --machines");
    if (cluster && cluster->n_device > MOST_DEVICES)
        return pst_fail(PST_EINPUT, "%s: %u devices; at most %d are supported", o->cluster,
                        cluster->n_device, MOST_DEVICES);
    if (cluster) PST_TRY(pst_import_devices(im, cluster, o->cluster));
    if (im->tensor) return apply_tensor(o, im->tensor);
    return im->format == PST_IMPORT_DNN ? apply_dnn(o, im) : apply_pipedream(o, cluster, im);
}

static pst_status apply(const pst_plan_graph_options *o, pst_import *im) {
    pst_cluster *cluster = NULL;
    PST_TRY(check_model(im, o));
    if (im->format != PST_IMPORT_PIPEDREAM &&
        (o->machines > 0 || o->between > 0 || o->straight || o->compression > 0))
        return pst_fail(PST_EINPUT,
                        "%s: --machines, --between, --straight and --compression are for PipeDream "
                        "workloads, not for %s",
                        o->graph, formats[im->format].format);
    if (o->devices > MOST_DEVICES)
        return pst_fail(PST_EINPUT, "too many devices; at most %d are supported", MOST_DEVICES);
    if (o->cluster && *o->cluster) {
        PST_TRY(pst_cluster_load(o->cluster, &cluster));
        pst_cluster_reserve(cluster, 1);
    }
    pst_status status = apply_to(o, cluster, im);
    pst_cluster_close(cluster);
    return status;
}

/* --- output ----------------------------------------------------------------------------------- */

static double gap_of(const pst_import_plan *plan) {
    return plan->objective > 0 ? 1 - plan->lower_bound / plan->objective : 0;
}

static int is_proven(const pst_import_plan *plan) {
    return plan->lower_bound >= plan->objective * (1 - 1e-9);
}

static const char *way_of(const pst_import *im, const pst_import_plan *plan, uint32_t v) {
    uint32_t t = 0, degree = plan->tensor[plan->part_of[v]];
    while (im->tensor->degree[t] != degree) t++;
    return pst_tensor_way_of(im->tensor, v, t, plan->way[v])->name;
}

/* The variant of each node; its name in the file may contain any character. */
static void print_ways(const pst_import *im, const pst_import_plan *plan, uint32_t s, FILE *out) {
    const char *comma = "";
    fputs("],\"ways\":[", out);
    for (uint32_t v = 0; v < im->n_node; v++) {
        if (plan->part_of[v] != s) continue;
        fprintf(out, "%s\"", comma);
        for (const char *c = way_of(im, plan, v); *c; c++)
            if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
                fprintf(out, "\\u%04x", (unsigned char)*c);
            else fputc(*c, out);
        fputc('"', out);
        comma = ",";
    }
}

static uint32_t devices_of(const pst_import_plan *plan, uint32_t s) {
    return plan->devices[s] * plan->tensor[s] * (plan->copies ? plan->copies[s] : 1);
}

static void print_stages(const pst_import *im, const pst_import_plan *plan, FILE *out) {
    fputs("\"stages\":[", out);
    for (uint32_t s = 0; s < plan->n_part; s++) {
        const char *comma = "";
        fprintf(out, "%s{\"kind\":\"%s\",\"devices\":%u,\"tensor\":%u,\"data\":%u,", s ? "," : "",
                im->kind[plan->kind[s]].name, devices_of(plan, s), plan->tensor[s],
                plan->devices[s]);
        if (plan->group)
            fprintf(out, "\"group\":%u,\"machines\":%u,", plan->group[s], plan->copies[s]);
        fprintf(out, "\"load\":%.17g,\"nodes\":[", plan->load[s]);
        for (uint32_t v = 0; v < im->n_node; v++)
            if (plan->part_of[v] == s) {
                fprintf(out, "%s%lld", comma, (long long)im->id[v]);
                comma = ",";
            }
        if (im->tensor) print_ways(im, plan, s, out);
        fputs("]}", out);
    }
    fputs("]}\n", out);
}

static void print_json(const pst_import *im, const pst_import_plan *plan, FILE *out) {
    fprintf(out,
            "{\"objective\":%.17g,\"lower_bound\":%.17g,\"gap\":%.6g,\"unit\":\"%s\",\"cost_"
            "model\":\"%s\",\"proven\":%s,"
            "\"nodes\":%u,\"items\":%u,\"downsets\":%u,\"seconds\":%.6f,",
            plan->objective, plan->lower_bound, gap_of(plan), im->unit, formats[im->format].model,
            is_proven(plan) ? "true" : "false", im->n_node, plan->n_item, plan->n_downset,
            plan->seconds);
    print_stages(im, plan, out);
}

static void print_stage(const pst_import *im, const pst_import_plan *plan, uint32_t s, FILE *out) {
    enum { SHOWN = 8 };
    uint32_t n = 0;
    char devices[64];
    int used = snprintf(devices, sizeof devices, "%u %s%s", plan->devices[s],
                        im->kind[plan->kind[s]].name, pst_plural(plan->devices[s]));
    if (im->tensor)
        snprintf(devices + used, sizeof devices - (size_t)used, " x %u", plan->tensor[s]);
    if (plan->group)
        snprintf(devices + used, sizeof devices - (size_t)used, " of %u machine%s", plan->copies[s],
                 pst_plural(plan->copies[s]));
    for (uint32_t v = 0; v < im->n_node; v++) n += plan->part_of[v] == s;
    fprintf(out, "%5u  %-*s %12.6g  %5u:", s, plan->group ? 20 : 16, devices, plan->load[s], n);
    n = 0;
    for (uint32_t v = 0; v < im->n_node; v++)
        if (plan->part_of[v] == s && n++ < SHOWN) fprintf(out, " %lld", (long long)im->id[v]);
    fputs(n > SHOWN ? " ...\n" : "\n", out);
}

static void print_table(const pst_import *im, const pst_import_plan *plan, FILE *out) {
    fprintf(out, "stage  %-*s load (%s)  nodes\n", plan->group ? 20 : 16, "devices", im->unit);
    for (uint32_t s = 0; s < plan->n_part; s++) print_stage(im, plan, s, out);
}

static void print_text(const pst_import *im, const pst_import_plan *plan, FILE *out) {
    fprintf(out, "%s  %.6g %s  lower bound %.6g %s  gap %.2f%%%s\n", formats[im->format].model,
            plan->objective, im->unit, plan->lower_bound, im->unit, 100 * gap_of(plan),
            is_proven(plan) ? ": proven optimal" : "");
    fprintf(out, "%u nodes as %u items; %u downsets%s; %.3f s\n", im->n_node, plan->n_item,
            plan->n_downset,
            plan->complete
                ? ""
                : " (only those near one order of the items, because there are too many)",
            plan->seconds);
    print_table(im, plan, out);
}

/* Evaluates the user's plan under this cost model. */
static pst_status evaluate(const pst_plan_graph_options *o, const pst_import *im, FILE *out) {
    pst_import_plan plan;
    char *text = NULL;
    size_t bytes = 0;
    const char *model = formats[im->format].model;
    PST_TRY(pst_file_read(o->evaluate, MOST_BYTES, &text, &bytes));
    pst_status status = pst_import_read_plan(im, text, bytes, o->evaluate, &plan);
    free(text);
    PST_TRY(status);
    if (o->json) {
        fprintf(out,
                "{\"objective\":%.17g,\"unit\":\"%s\",\"cost_model\":\"%s\",\"contiguous\":%s,",
                plan.objective, im->unit, model, plan.not_contiguous ? "false" : "true");
        print_stages(im, &plan, out);
    } else {
        fprintf(out, "%s  %.6g %s%s\n", model, plan.objective, im->unit,
                plan.not_contiguous ? "  not contiguous: an edge leads to an earlier part" : "");
        print_table(im, &plan, out);
    }
    pst_import_plan_close(&plan);
    return PST_OK;
}

static pst_status plan_graph(const pst_plan_graph_options *o, pst_import *im, FILE *out) {
    pst_import_plan plan;
    PST_TRY(apply(o, im));
    if (o->evaluate && *o->evaluate) return evaluate(o, im, out);
    pst_status status = pst_import_solve(im, o->time_limit > 0 ? o->time_limit : 60, &plan);
    if (status != PST_OK) return pst_fail_in(status, "%s", o->graph);
    if (o->json) print_json(im, &plan, out);
    else print_text(im, &plan, out);
    pst_import_plan_close(&plan);
    return PST_OK;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *import) {
    return pst_import_parse(text, bytes, file, import);
}

pst_status pst_plan_graph(const pst_plan_graph_options *options, FILE *out) {
    pst_plan_graph_options o;
    pst_import *im = NULL;
    PST_TRY(pst_sized_take("pst_plan_graph", options, &o, sizeof o));
    if (!o.graph) return pst_fail(PST_EINPUT, "pst_plan_graph: options.graph is NULL");
    pst_status status = pst_file_parse(o.graph, MOST_BYTES, parse_into, &im);
    if (status == PST_OK) status = plan_graph(&o, im, out);
    pst_import_close(im);
    return status;
}
