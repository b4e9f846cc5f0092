/* Reads a plan from YAML. Every key is one row; an unknown, repeated or missing key, a wrong type
 * or a value out of range is EINPUT with file, line and column. The file is untrusted input. */
#include "base/file.h"
#include "config/yaml.h"
#include "pipeline/cluster/cluster.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FILE = 64 << 20,
    MAX_PART = 65535,
    MAX_OVERRIDE = 256,
    MAX_CHOICE = 65536,
    MAX_NODE = 1 << 24
};

typedef struct {
    pst_yaml yaml;
    pst_plan head;                    /* without arrays: their sizes are not known yet */
    const yaml_node_t *chunks, *peak; /* [n_chunk] mappings; [n_rank] bytes, NULL when absent */
    const yaml_node_t *micros, *device, *cluster, *run; /* [data]; [ranks of the job]; texts; NULL
                                                           when absent */
    const yaml_node_t *tensors;  /* [n_rank]; NULL when all stages have the same number */
    const yaml_node_t *override; /* texts; NULL when absent */
    const yaml_node_t *choice;   /* mappings; NULL when absent */
    uint32_t n_override, n_choice;
} reader;

static pst_status read_hash(const reader *r, const yaml_node_t *node, uint64_t *value) {
    const char *text = pst_yaml_text(node);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return pst_yaml_fail(&r->yaml, node, "expected ", "16 hexadecimal digits");
    *value = strtoull(text, NULL, 16);
    return PST_OK;
}

static pst_status read_schedule(const reader *r, const yaml_node_t *node, char *name,
                                size_t bytes) {
    const pst_schedule_row *row;
    if (node->type != YAML_SCALAR_NODE)
        return pst_yaml_fail(&r->yaml, node, "expected ", "the name of a schedule");
    pst_status status = pst_schedule_find(pst_yaml_text(node), &row);
    if (status != PST_OK) return pst_yaml_at(&r->yaml, node, status);
    snprintf(name, bytes, "%s", row->name);
    return PST_OK;
}

static pst_status read_predicted(reader *r, const yaml_node_t *node) {
    static const pst_yaml_key row[] = {
        {"step_ns", 0}, {"flush_ns", 0}, {"bubble", 0}, {"peak_bytes", 0}, {"bound_ns", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t n;
    PST_TRY(pst_yaml_mapping(&r->yaml, node, row, 5, value));
    if (value[0]) PST_TRY(pst_yaml_whole(&r->yaml, value[0], 0, UINT64_MAX, &r->head.step_ns));
    if (value[1]) PST_TRY(pst_yaml_whole(&r->yaml, value[1], 0, UINT64_MAX, &r->head.flush_ns));
    if (value[2]) PST_TRY(pst_yaml_real(&r->yaml, value[2], 0, 1, &r->head.bubble));
    if (value[4]) PST_TRY(pst_yaml_whole(&r->yaml, value[4], 0, UINT64_MAX, &r->head.bound_ns));
    r->peak = value[3];
    return r->peak ? pst_yaml_list(&r->yaml, r->peak, r->head.layout.pipeline,
                                   r->head.layout.pipeline, "numbers, one per rank (bytes)", &n)
                   : PST_OK;
}

static pst_status read_flag(const reader *r, const yaml_node_t *node, uint32_t *flag) {
    const char *text = pst_yaml_text(node);
    *flag = !strcmp(text, "true");
    return *flag || !strcmp(text, "false")
               ? PST_OK
               : pst_yaml_fail(&r->yaml, node, "expected ", "true or false");
}

/* One number for all stages, or a list of one per stage; a list of equal numbers counts as one.
 * sum: over all stages. */
static pst_status read_tensor(reader *r, const yaml_node_t *node, uint64_t *sum) {
    pst_yaml *y = &r->yaml;
    uint32_t n = r->head.layout.pipeline, first = 0, differ = 0;
    if (node->type != YAML_SEQUENCE_NODE) {
        PST_TRY(pst_yaml_u32(y, node, 1, MAX_PART, &r->head.layout.tensor));
        *sum = (uint64_t)n * r->head.layout.tensor;
        return PST_OK;
    }
    PST_TRY(pst_yaml_list(y, node, n, n, "numbers, one per stage (tensor ranks)", &n));
    for (uint32_t s = 0, degree; s < n; s++, *sum += degree) {
        PST_TRY(pst_yaml_u32(y, pst_yaml_item(y, node, s), 1, MAX_PART, &degree));
        if (!s) first = r->head.layout.tensor = degree;
        differ |= degree != first;
        if (degree > r->head.layout.tensor) r->head.layout.tensor = degree;
    }
    if (differ) r->tensors = node;
    return PST_OK;
}

/* The servers of all stages. ranks: of one replica. */
static pst_status read_servers(reader *r, const yaml_node_t *node, uint64_t ranks) {
    uint32_t n;
    PST_TRY(pst_yaml_u32(&r->yaml, node, 0, MAX_PART, &n));
    if (n && (n % ranks || r->head.layout.data < 2 || r->head.layout.zero != 1))
        return pst_yaml_fail(&r->yaml, node, "expected ",
                             "a multiple of ranks x tensor, with data 2 or more and zero 1");
    r->head.layout.servers = n / (uint32_t)ranks;
    return PST_OK;
}

/* Keys of the whole job; value: those rows of read_head from "data" on. */
static pst_status read_job(reader *r, const yaml_node_t *const *value) {
    pst_layout *l = &r->head.layout;
    pst_yaml *y = &r->yaml;
    uint32_t n;
    for (uint32_t k = 1; !value[0] && k < 6; k++)
        if (value[k])
            return pst_yaml_fail(y, value[k],
                                 "missing key: ", "data; expected data together with this key");
    if (value[0]) PST_TRY(pst_yaml_u32(y, value[0], 1, MAX_PART, &l->data));
    l->tensor = l->data ? 1 : 0;
    uint64_t stages = 0;
    if (value[1]) PST_TRY(read_tensor(r, value[1], &stages));
    else stages = l->pipeline;
    if (value[2]) PST_TRY(read_flag(r, value[2], &l->sequence));
    if (value[3]) PST_TRY(pst_yaml_u32(y, value[3], 0, 2, &l->zero));
    if (stages * l->data > PST_CLUSTER_MAX_DEVICES)
        return pst_yaml_fail(y, value[0],
                             "ranks x data x tensor is too large; expected a product of at most ",
                             "65536");
    if (value[10]) PST_TRY(read_servers(r, value[10], stages));
    r->micros = value[4];
    r->device = value[5];
    r->cluster = value[6];
    r->run = value[7];
    r->override = value[8];
    if (r->override)
        PST_TRY(pst_yaml_list(y, r->override, 0, MAX_OVERRIDE,
                              "strings of the form section.key=value", &r->n_override));
    if (r->micros)
        PST_TRY(pst_yaml_list(y, r->micros, l->data, l->data,
                              "numbers of micro-batches, one per replica", &n));
    n = (uint32_t)stages * ((l->data ? l->data : 1) + l->servers);
    return r->device
               ? pst_yaml_list(y, r->device, n, n, "numbers, one per rank (indices of devices)", &n)
               : PST_OK;
}

/* A name, or {full: N}. */
static pst_status read_recompute(reader *r, const yaml_node_t *node, pst_recompute_way *recompute) {
    static const pst_yaml_key row[] = {{"full", 1}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t layers;
    if (node->type == YAML_MAPPING_NODE) {
        PST_TRY(pst_yaml_mapping(&r->yaml, node, row, 1, value));
        PST_TRY(pst_yaml_u32(&r->yaml, value[0], 1, PST_RECOMPUTE_MOST_LAYERS, &layers));
        *recompute = pst_recompute_of_layers(layers);
        return PST_OK;
    }
    pst_status status = pst_recompute_find(pst_yaml_text(node), recompute);
    return status == PST_OK ? PST_OK : pst_yaml_at(&r->yaml, node, status);
}

/* One chunk: {chunk: 0, rank: 0, nodes: [0, 11], recompute: none}. *next: the operator with which
 * it has to begin; set to the one after it. */
static pst_status read_chunk(reader *r, const yaml_node_t *node, uint32_t chunk, uint32_t *rank,
                             pst_recompute_way *recompute, uint32_t *next) {
    static const pst_yaml_key row[] = {{"chunk", 1}, {"rank", 1}, {"nodes", 1}, {"recompute", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    pst_yaml *y = &r->yaml;
    uint32_t number, first, last, n;
    PST_TRY(pst_yaml_mapping(y, node, row, 4, value));
    PST_TRY(pst_yaml_u32(y, value[0], chunk, chunk, &number));
    PST_TRY(pst_yaml_u32(y, value[1], 0, r->head.layout.pipeline - 1, rank));
    *recompute = PST_RECOMPUTE_NONE;
    if (value[3]) PST_TRY(read_recompute(r, value[3], recompute));
    PST_TRY(pst_yaml_list(y, value[2], 2, 2, "operators, [first, last]", &n));
    PST_TRY(pst_yaml_u32(y, pst_yaml_item(y, value[2], 0), *next, *next, &first));
    PST_TRY(pst_yaml_u32(y, pst_yaml_item(y, value[2], 1), first, MAX_NODE - 1, &last));
    *next = last + 1;
    return PST_OK;
}

/* Every rank has a chunk, so the highest rank of a chunk is known to be ranks - 1. ranks: the node
 * of that key. */
static pst_status read_chunks(reader *r, const yaml_node_t *ranks) {
    uint32_t rank, most = 0;
    pst_recompute_way recompute;
    char wrong[80];
    for (uint32_t c = 0; c < r->head.layout.n_chunk; c++) {
        PST_TRY(read_chunk(r, pst_yaml_item(&r->yaml, r->chunks, c), c, &rank, &recompute,
                           &r->head.layout.n_item));
        if (rank > most) most = rank;
    }
    if (most + 1 == r->head.layout.pipeline) return PST_OK;
    snprintf(wrong, sizeof wrong, "%u, but the chunks use ranks 0 to %u: expected %u",
             r->head.layout.pipeline, most, most + 1);
    return pst_yaml_fail(&r->yaml, ranks, "ranks is ", wrong);
}

static pst_status read_head(reader *r, const yaml_node_t *root) {
    static const pst_yaml_key row[] = {{"graph_hash", 1},       {"schedule", 1},    {"ranks", 1},
                                       {"micro_batches", 1},    {"micro_batch", 1}, {"chunks", 1},
                                       {"predicted", 0},        {"data", 0},        {"tensor", 0},
                                       {"sequence", 0},         {"zero", 0},        {"replicas", 0},
                                       {"devices", 0},          {"cluster", 0},     {"run", 0},
                                       {"overrides", 0},        {"products", 0},    {"servers", 0},
                                       {"first_micro_batch", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    pst_yaml *y = &r->yaml;
    pst_layout *l = &r->head.layout;
    PST_TRY(pst_yaml_mapping(y, root, row, 19, value));
    PST_TRY(read_hash(r, value[0], &r->head.graph_hash));
    PST_TRY(read_schedule(r, value[1], l->schedule, sizeof l->schedule));
    PST_TRY(pst_yaml_u32(y, value[2], 1, MAX_PART, &l->pipeline));
    PST_TRY(pst_yaml_u32(y, value[3], 1, MAX_NODE, &l->n_micro));
    PST_TRY(pst_yaml_u32(y, value[4], 1, MAX_NODE, &l->micro_batch));
    if (value[18]) PST_TRY(pst_yaml_u32(y, value[18], 1, l->micro_batch - 1, &l->rest));
    r->chunks = value[5];
    PST_TRY(pst_yaml_list(y, r->chunks, 1, MAX_PART, "chunks", &l->n_chunk));
    PST_TRY(read_chunks(r, value[2]));
    PST_TRY(read_job(r, value + 7));
    r->choice = value[16];
    if (r->choice)
        PST_TRY(pst_yaml_list(y, r->choice, 0, MAX_CHOICE,
                              "choices of the form {of: STRING, is: STRING}", &r->n_choice));
    return value[6] ? read_predicted(r, value[6]) : PST_OK;
}

static pst_status read_numbers(reader *r, const yaml_node_t *list, uint32_t n, uint32_t min,
                               uint32_t max, uint32_t **out) {
    if (!list) return PST_OK;
    if (!(*out = malloc(n * sizeof **out)))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", r->yaml.file);
    for (uint32_t i = 0; i < n; i++)
        PST_TRY(pst_yaml_u32(&r->yaml, pst_yaml_item(&r->yaml, list, i), min, max, &(*out)[i]));
    return PST_OK;
}

/* The replicas' micro-batches add up to those of a step. */
static pst_status check_micros(const reader *r, const pst_layout *l) {
    uint64_t sum = 0;
    for (uint32_t k = 0; l->micros && k < l->data; k++) sum += l->micros[k];
    if (!l->micros || sum == l->n_micro) return PST_OK;
    return pst_yaml_fail(&r->yaml, r->micros, "the micro-batches of the replicas do not add up to ",
                         "micro_batches");
}

static pst_status read_overrides(reader *r, pst_plan *p) {
    if (!r->n_override) return PST_OK;
    if (!(p->override = calloc(r->n_override, sizeof *p->override)))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", r->yaml.file);
    for (; p->n_override < r->n_override; p->n_override++) {
        const yaml_node_t *item = pst_yaml_item(&r->yaml, r->override, p->n_override);
        if (item->type != YAML_SCALAR_NODE)
            return pst_yaml_fail(&r->yaml, item, "expected ", "section.key=value");
        if (!(p->override[p->n_override] = strdup(pst_yaml_text(item))))
            return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", r->yaml.file);
    }
    return PST_OK;
}

static pst_status read_choice_text(reader *r, const yaml_node_t *node, char *to, size_t bytes) {
    if (node->type != YAML_SCALAR_NODE)
        return pst_yaml_fail(&r->yaml, node, "expected ", "a string");
    if (strlen(pst_yaml_text(node)) >= bytes)
        return pst_yaml_fail(&r->yaml, node, "expected ",
                             "a shorter string (of: at most 199 bytes, is: at most 159 bytes)");
    strcpy(to, pst_yaml_text(node));
    return PST_OK;
}

static pst_status read_choices(reader *r, pst_plan *p) {
    static const pst_yaml_key row[] = {{"of", 1}, {"is", 1}};
    const yaml_node_t *value[PST_YAML_KEYS];
    if (!r->n_choice) return PST_OK;
    if (!(p->choice = calloc(r->n_choice, sizeof *p->choice)))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", r->yaml.file);
    for (; p->n_choice < r->n_choice; p->n_choice++) {
        pst_choice *choice = &p->choice[p->n_choice];
        PST_TRY(pst_yaml_mapping(&r->yaml, pst_yaml_item(&r->yaml, r->choice, p->n_choice), row, 2,
                                 value));
        PST_TRY(read_choice_text(r, value[0], choice->of, sizeof choice->of));
        PST_TRY(read_choice_text(r, value[1], choice->is, sizeof choice->is));
    }
    return PST_OK;
}

static pst_status read_degrees(reader *r, pst_layout *l) {
    if (!r->tensors) return PST_OK;
    if (!(l->tensor_before = calloc(l->pipeline + (size_t)1, sizeof *l->tensor_before)))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", r->yaml.file);
    for (uint32_t s = 0, degree; s < l->pipeline; s++) {
        const yaml_node_t *item = pst_yaml_item(&r->yaml, r->tensors, s);
        PST_TRY(pst_yaml_u32(&r->yaml, item, 1, MAX_PART, &degree));
        l->tensor_before[s + 1] = l->tensor_before[s] + degree;
    }
    return PST_OK;
}

static pst_status read_cut(reader *r, pst_layout *l) {
    uint32_t next = 0;
    PST_TRY(pst_layout_open_cut(l, l->n_item, l->n_chunk));
    for (uint32_t c = 0; c < l->n_chunk; c++) {
        const yaml_node_t *chunk = pst_yaml_item(&r->yaml, r->chunks, c);
        PST_TRY(read_chunk(r, chunk, c, &l->rank_of_chunk[c], &l->recompute[c], &next));
        l->first_item[c + 1] = next;
    }
    return PST_OK;
}

/* --- assembly --------------------------------------------------------------------------------- */

/* The arrays of r->head's layout. */
static pst_status read_layout(reader *r) {
    pst_layout *l = &r->head.layout;
    l->chunks = l->n_chunk / l->pipeline;
    PST_TRY(read_cut(r, l));
    PST_TRY(read_numbers(r, r->micros, l->data, 1, MAX_NODE, &l->micros));
    PST_TRY(check_micros(r, l));
    PST_TRY(read_degrees(r, l));
    return read_numbers(r, r->device, pst_plan_job_ranks(&r->head), 0, PST_CLUSTER_MAX_DEVICES - 1,
                        &l->device);
}

static pst_status read_rest(reader *r, pst_plan *p) {
    p->step_ns = r->head.step_ns;
    p->flush_ns = r->head.flush_ns;
    p->bound_ns = r->head.bound_ns;
    p->bubble = r->head.bubble;
    for (uint32_t k = 0; r->peak && k < p->layout.pipeline; k++) {
        const yaml_node_t *bytes = pst_yaml_item(&r->yaml, r->peak, k);
        PST_TRY(pst_yaml_whole(&r->yaml, bytes, 0, UINT64_MAX, &p->peak_bytes[k]));
    }
    PST_TRY(pst_plan_set_text(&p->cluster, pst_yaml_text(r->cluster)));
    PST_TRY(pst_plan_set_text(&p->run, pst_yaml_text(r->run)));
    PST_TRY(read_choices(r, p));
    return read_overrides(r, p);
}

static pst_status read_body(reader *r, pst_plan **plan) {
    pst_plan *p = NULL;
    pst_status status = read_layout(r);
    if (status == PST_OK) status = pst_plan_open(&r->head.layout, r->head.graph_hash, &p);
    pst_layout_close(&r->head.layout);
    PST_TRY(status);
    status = read_rest(r, p);
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}

pst_status pst_plan_parse(const char *text, size_t bytes, const char *file, pst_plan **plan) {
    reader r = {0};
    const yaml_node_t *root;
    PST_TRY(pst_yaml_open(text, bytes, file, "a plan", &r.yaml, &root));
    pst_status status = read_head(&r, root);
    if (status == PST_OK) status = read_body(&r, plan);
    pst_yaml_close(&r.yaml);
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *plan) {
    return pst_plan_parse(text, bytes, file, plan);
}

pst_status pst_plan_load(const char *path, pst_plan **plan) {
    if (!path || !plan)
        return pst_fail(PST_EINPUT, "pst_plan_load: %s is NULL", path ? "plan" : "path");
    return pst_file_parse(path, MAX_FILE, parse_into, plan);
}
