/* The text form of a graph, written and read back to the same graph:
 *
 *     penstock-graph 1
 *     graph gpt micro_batch 4                          (F32; "dtype" and TF32, BF16, F16 or F8 may
 *                                                      follow)
 *     param wte.weight [256,128] normal 0.02 decay
 *     data tokens [4,64]
 *     node embedding embedding in tokens param wte.weight,wpe.weight
 *     node h.0.mlp.c_fc linear in h.0.ln_2.out param ... features=512 activation=gelu_tanh
 *     output lm_head.out
 *
 * Blank lines and lines that start with # are ignored. Shapes of outputs are not written: operators
 * define them. */
#include "graph/graph.h"
#include "graph/op.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const init_name[] = {"zero", "one", "normal"};
enum { N_INIT = 3, MAX_WORD = 32 };

static void print_shape(const uint64_t *dim, uint32_t n_dim, FILE *out) {
    for (uint32_t i = 0; i < n_dim; i++)
        fprintf(out, "%c%lu", i ? ',' : '[', (unsigned long)dim[i]);
    fputc(']', out);
}

/* The shortest decimal form that reads back as the same float. */
static void print_float(float value, FILE *out) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    fputs(text, out);
}

static void print_param(const pst_param *p, FILE *out) {
    fprintf(out, "param %s ", p->name);
    print_shape(p->dim, p->n_dim, out);
    fprintf(out, " %s", init_name[p->init]);
    if (p->std != 0) {
        fputc(' ', out);
        print_float(p->std, out);
    }
    if (p->decay) fputs(" decay", out);
    else if (p->statistic) fputs(" statistic", out);
    else if (p->cache) fputs(" cache", out);
    else if (p->frozen) fputs(" frozen", out);
    fputc('\n', out);
}

/* 0, which is left out, is the default. */
static void print_number(const char *name, float value, FILE *out) {
    if (value == 0) return;
    fprintf(out, " %s=", name);
    print_float(value, out);
}

static void print_rope(const pst_rope *r, FILE *out) {
    print_number("theta", r->theta, out);
    if (r->scaling) fprintf(out, " scaling=%s", pst_rope_scaling_name(r->scaling));
    print_number("factor", r->factor, out);
    print_number("low", r->low, out);
    print_number("high", r->high, out);
    print_number("attention", r->attention, out);
    if (r->context) fprintf(out, " context=%u", r->context);
}

static void print_node(const pst_graph *g, const pst_node *d, FILE *out) {
    fprintf(out, "node %s %s", d->name, d->op->name);
    for (uint32_t i = 0; i < d->n_in; i++)
        fprintf(out, "%s%s", i ? "," : " in ", g->tensor[d->in[i]].name);
    for (uint32_t i = 0; i < d->n_param; i++)
        fprintf(out, "%s%s", i ? "," : " param ", g->param[d->param[i]].name);
    if (d->attr.heads) fprintf(out, " heads=%u", d->attr.heads);
    if (d->attr.kv_heads) fprintf(out, " kv_heads=%u", d->attr.kv_heads);
    if (d->attr.bidirectional) fprintf(out, " bidirectional=%u", d->attr.bidirectional);
    if (d->attr.features) fprintf(out, " features=%u", d->attr.features);
    if (d->attr.wide) fprintf(out, " wide=%u", d->attr.wide);
    if (d->attr.window) fprintf(out, " window=%u", d->attr.window);
    if (d->attr.per_sample) fprintf(out, " per_sample=%u", d->attr.per_sample);
    if (d->attr.hits) fprintf(out, " hits=%u", d->attr.hits);
    if (d->attr.stride) fprintf(out, " stride=%u", d->attr.stride);
    if (d->attr.padding) fprintf(out, " padding=%u", d->attr.padding);
    if (d->attr.activation) fprintf(out, " activation=%s", pst_activation_name(d->attr.activation));
    print_number("eps", d->attr.eps, out);
    print_number("rate", d->attr.rate, out);
    print_number("factor", d->attr.factor, out);
    print_number("smoothing", d->attr.smoothing, out);
    print_number("z_loss", d->attr.z_loss, out);
    if (d->attr.rope.theta != 0) print_rope(&d->attr.rope, out);
    fputc('\n', out);
}

/* Data tensors are written at the place where they were added, so that every tensor keeps its
 * number. */
static uint32_t print_data(const pst_graph *g, uint32_t from, uint32_t end, FILE *out) {
    for (; from < end; from++) {
        fprintf(out, "data %s ", g->tensor[from].name);
        print_shape(g->tensor[from].dim, g->tensor[from].n_dim, out);
        fputc('\n', out);
    }
    return from;
}

pst_status pst_graph_print(const pst_graph *g, FILE *out) {
    if (!g || !out) return pst_fail(PST_EINPUT, "pst_graph_print: %s is NULL", g ? "out" : "graph");
    fprintf(out, "penstock-graph 1\ngraph %s micro_batch %u", g->name, g->micro_batch);
    if (pst_graph_factors(g) != PST_F32)
        fprintf(out, " dtype %s", pst_dtype_name(pst_graph_factors(g)));
    fputc('\n', out);
    for (uint32_t i = 0; i < g->n_param; i++) print_param(&g->param[i], out);
    uint32_t next = 0;
    for (uint32_t i = 0; i < g->n_node; i++) {
        print_data(g, next, g->node[i].out[0], out);
        print_node(g, &g->node[i], out);
        next = g->node[i].out[0] + g->node[i].n_out;
    }
    print_data(g, next, g->n_tensor, out);
    for (uint32_t i = 0; i < g->n_tensor; i++)
        if (g->tensor[i].role == PST_TENSOR_OUTPUT) fprintf(out, "output %s\n", g->tensor[i].name);
    return ferror(out) ? pst_fail(PST_EINPUT, "cannot write graph %s", g->name) : PST_OK;
}

/* One line, split at blanks. */
typedef struct {
    uint32_t n;
    char *word[MAX_WORD];
} line;

static pst_status split_line(char *text, line *l) {
    char *rest = NULL;
    l->n = 0;
    for (char *w = strtok_r(text, " \t\r", &rest); w; w = strtok_r(NULL, " \t\r", &rest)) {
        if (l->n == MAX_WORD)
            return pst_fail(PST_EINPUT, "the line has more than %d words", MAX_WORD);
        l->word[l->n++] = w;
    }
    return PST_OK;
}

/* All of `text` must be a decimal number within [min, max]. */
static pst_status read_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || v < min || v > max)
        return pst_fail(PST_EINPUT, "\"%.40s\" is not a number from %lu to %lu", text,
                        (unsigned long)min, (unsigned long)max);
    *value = v;
    return PST_OK;
}

static pst_status read_float(const char *text, float *value) {
    char *end;
    float v = strtof(text, &end);
    if (end == text || *end || !isfinite(v) || signbit(v))
        return pst_fail(PST_EINPUT, "\"%.40s\" is not a finite number >= 0", text);
    *value = v;
    return PST_OK;
}

static pst_status read_name(const char *text, const char *const *name, int n, int *index) {
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], text) == 0) {
            *index = i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "unknown word \"%.40s\"", text);
}

/* "[4,64]"; destroys the text. */
static pst_status read_shape(char *text, uint32_t *n_dim, uint64_t dim[PST_MAX_DIM]) {
    size_t length = strlen(text);
    if (length < 3 || text[0] != '[' || text[length - 1] != ']')
        return pst_fail(PST_EINPUT, "\"%.40s\" is not a shape such as [4,64]", text);
    text[length - 1] = 0;
    *n_dim = 0;
    for (char *rest = text + 1, *item; (item = strsep(&rest, ",")) != NULL;) {
        if (*n_dim == PST_MAX_DIM)
            return pst_fail(PST_EINPUT, "a shape has at most %d dimensions", PST_MAX_DIM);
        PST_TRY(read_u64(item, 1, INT32_MAX, &dim[(*n_dim)++]));
    }
    return PST_OK;
}

static pst_status find_tensor(const pst_graph *g, const char *name, uint32_t *index) {
    *index = pst_graph_find_tensor(g, name);
    return *index != PST_NONE
               ? PST_OK
               : pst_fail(PST_EINPUT, "no line above defines tensor \"%.95s\"", name);
}

/* "a,b": tensors, or parameters when is_param; destroys the text. */
static pst_status read_operands(const pst_graph *g, char *text, int is_param, uint32_t max,
                                uint32_t *index, uint32_t *n) {
    *n = 0;
    for (char *rest = text, *item; (item = strsep(&rest, ",")) != NULL; (*n)++) {
        if (*n == max) return pst_fail(PST_EINPUT, "more than %u operands", max);
        if (!is_param) {
            PST_TRY(find_tensor(g, item, &index[*n]));
            continue;
        }
        index[*n] = pst_graph_find_param(g, item);
        if (index[*n] == PST_NONE)
            return pst_fail(PST_EINPUT, "no line above defines parameter \"%.95s\"", item);
    }
    return PST_OK;
}

/* "heads=4"; destroys the text. */
static pst_status read_attr(char *text, pst_attr *attr) {
    char *value = strchr(text, '=');
    if (!value) return pst_fail(PST_EINPUT, "\"%.40s\" is not an attribute such as heads=4", text);
    *value++ = 0;
    uint64_t number = 0;
    const struct {
        const char *name;
        float *at;
    } real[] = {{"eps", &attr->eps},
                {"rate", &attr->rate},
                {"factor", &attr->factor},
                {"smoothing", &attr->smoothing},
                {"z_loss", &attr->z_loss},
                {"theta", &attr->rope.theta},
                {"factor", &attr->rope.factor},
                {"low", &attr->rope.low},
                {"high", &attr->rope.high},
                {"attention", &attr->rope.attention}};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        if (!strcmp(text, real[i].name)) return read_float(value, real[i].at);
    if (strcmp(text, "activation") == 0) return pst_activation_find(value, &attr->activation);
    if (strcmp(text, "scaling") == 0) return pst_rope_scaling_find(value, &attr->rope.scaling);
    uint32_t *field = NULL;
    const struct {
        const char *name;
        uint32_t *at;
    } integer[] = {{"heads", &attr->heads},
                   {"bidirectional", &attr->bidirectional},
                   {"features", &attr->features},
                   {"window", &attr->window},
                   {"stride", &attr->stride},
                   {"padding", &attr->padding},
                   {"wide", &attr->wide},
                   {"kv_heads", &attr->kv_heads},
                   {"context", &attr->rope.context},
                   {"per_sample", &attr->per_sample},
                   {"hits", &attr->hits}};
    for (size_t i = 0; i < sizeof integer / sizeof *integer; i++)
        if (!strcmp(text, integer[i].name)) field = integer[i].at;
    if (!field) return pst_fail(PST_EINPUT, "unknown attribute \"%.40s\"", text);
    PST_TRY(read_u64(value, 0, INT32_MAX, &number));
    *field = (uint32_t)number;
    return PST_OK;
}

static pst_status parse_data(pst_graph *g, const line *l) {
    if (l->n != 3) return pst_fail(PST_EINPUT, "expected: data NAME [SHAPE]");
    uint64_t dim[PST_MAX_DIM];
    uint32_t n_dim, index;
    PST_TRY(read_shape(l->word[2], &n_dim, dim));
    return pst_graph_data(g, l->word[1], n_dim, dim, &index);
}

static int is_flag(const char *word) {
    return strcmp(word, "decay") == 0 || strcmp(word, "statistic") == 0 ||
           strcmp(word, "cache") == 0 || strcmp(word, "frozen") == 0;
}

static pst_status parse_param(pst_graph *g, const line *l) {
    pst_param p = {0};
    uint32_t next = 4, index;
    int init = 0;
    if (l->n < 4)
        return pst_fail(
            PST_EINPUT,
            "expected: param NAME [SHAPE] zero|one|normal [STD] [decay|statistic|cache|frozen]");
    if (strlen(l->word[1]) >= sizeof(p.name)) return pst_fail(PST_EINPUT, "the name is too long");
    strcpy(p.name, l->word[1]);
    PST_TRY(read_shape(l->word[2], &p.n_dim, p.dim));
    PST_TRY(read_name(l->word[3], init_name, N_INIT, &init));
    p.init = (pst_init)init;
    if (next < l->n && !is_flag(l->word[next])) PST_TRY(read_float(l->word[next++], &p.std));
    if (next < l->n && is_flag(l->word[next])) {
        p.decay = strcmp(l->word[next], "decay") == 0;
        p.statistic = strcmp(l->word[next], "statistic") == 0;
        p.cache = strcmp(l->word[next], "cache") == 0;
        p.frozen = strcmp(l->word[next], "frozen") == 0;
        next++;
    }
    if (next < l->n)
        return pst_fail(PST_EINPUT, "unexpected word \"%.40s\" at the end of the line",
                        l->word[next]);
    return pst_graph_param(g, &p, &index);
}

static pst_status parse_node(pst_graph *g, const line *l) {
    uint32_t in[PST_MAX_IN], param[PST_MAX_PARAM], n_in = 0, n_param = 0, next = 3, out;
    pst_attr attr = {0};
    if (l->n < 3)
        return pst_fail(PST_EINPUT,
                        "expected: node NAME OPERATOR [in A,B] [param P,Q] [attribute=value ...]");
    if (next + 1 < l->n && strcmp(l->word[next], "in") == 0) {
        PST_TRY(read_operands(g, l->word[next + 1], 0, PST_MAX_IN, in, &n_in));
        next += 2;
    }
    if (next + 1 < l->n && strcmp(l->word[next], "param") == 0) {
        PST_TRY(read_operands(g, l->word[next + 1], 1, PST_MAX_PARAM, param, &n_param));
        next += 2;
    }
    for (; next < l->n; next++) PST_TRY(read_attr(l->word[next], &attr));
    return pst_graph_add(
        g, &(pst_new_node){l->word[2], l->word[1], &attr, in, n_in, param, n_param}, &out);
}

static pst_status parse_output(pst_graph *g, const line *l) {
    uint32_t index = 0;
    if (l->n != 2) return pst_fail(PST_EINPUT, "expected: output TENSOR");
    PST_TRY(find_tensor(g, l->word[1], &index));
    if (g->tensor[index].role == PST_TENSOR_DATA)
        return pst_fail(PST_EINPUT, "%s is data and cannot be an output", l->word[1]);
    g->tensor[index].role = PST_TENSOR_OUTPUT;
    return PST_OK;
}

static pst_status parse_graph(const line *l, pst_graph **graph) {
    uint64_t micro_batch = 0;
    int typed = l->n == 6 && strcmp(l->word[4], "dtype") == 0;
    if ((l->n != 4 && !typed) || strcmp(l->word[0], "graph") != 0 ||
        strcmp(l->word[2], "micro_batch") != 0)
        return pst_fail(PST_EINPUT,
                        "expected: graph NAME micro_batch N [dtype F32|TF32|BF16|F16|F8]");
    PST_TRY(read_u64(l->word[3], 1, INT32_MAX, &micro_batch));
    static const pst_dtype known[] = {PST_F32, PST_TF32, PST_BF16, PST_F16, PST_F8};
    enum { KNOWN = sizeof known / sizeof *known };
    uint32_t i = 0;
    while (typed && i < KNOWN && strcmp(l->word[5], pst_dtype_name(known[i]))) i++;
    if (i == KNOWN)
        return pst_fail(PST_EINPUT, "unknown dtype \"%.40s\" (possible: F32, TF32, BF16, F16, F8)",
                        l->word[5]);
    PST_TRY(pst_graph_open(l->word[1], (uint32_t)micro_batch, graph));
    pst_graph_compute(*graph, known[i]);
    return PST_OK;
}

/* The reader's state: line 1 is the format's name, line 2 opens the graph. */
typedef struct {
    int seen_format;
    pst_graph *g;
} reader;

static pst_status parse_line(reader *r, const line *l) {
    if (!r->seen_format) {
        r->seen_format =
            l->n == 2 && strcmp(l->word[0], "penstock-graph") == 0 && strcmp(l->word[1], "1") == 0;
        return r->seen_format ? PST_OK
                              : pst_fail(PST_EINPUT, "the first line must be \"penstock-graph 1\"");
    }
    if (!r->g) return parse_graph(l, &r->g);
    if (strcmp(l->word[0], "data") == 0) return parse_data(r->g, l);
    if (strcmp(l->word[0], "param") == 0) return parse_param(r->g, l);
    if (strcmp(l->word[0], "node") == 0) return parse_node(r->g, l);
    if (strcmp(l->word[0], "output") == 0) return parse_output(r->g, l);
    return pst_fail(PST_EINPUT, "a line must start with data, param, node or output, not \"%.40s\"",
                    l->word[0]);
}

static pst_status parse_lines(reader *r, char *text, const char *file) {
    uint32_t number = 0;
    for (char *rest = text, *next; (next = strsep(&rest, "\n")) != NULL;) {
        line l;
        number++;
        pst_status status = split_line(next, &l);
        if (status == PST_OK && l.n > 0 && l.word[0][0] != '#') status = parse_line(r, &l);
        if (status != PST_OK) return pst_fail_in(status, "%s:%u", file, number);
    }
    if (!r->g)
        return pst_fail(PST_EINPUT,
                        "%s:%u: the text ends without a line \"graph NAME micro_batch N\"", file,
                        number);
    return PST_OK;
}

pst_status pst_graph_parse(const char *text, const char *file, pst_graph **graph) {
    char *copy = strdup(text);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory to read %s", file);
    reader r = {0};
    pst_status status = parse_lines(&r, copy, file);
    free(copy);
    if (status == PST_OK) *graph = r.g;
    else pst_graph_close(r.g);
    return status;
}
