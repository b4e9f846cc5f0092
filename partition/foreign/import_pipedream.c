/* PipeDream's graph.txt: a line per node, "node4 -- description -- forward_compute_time=..,
 * backward_compute_time=.., activation_size=.., parameter_size=.." (milliseconds, bytes), and one
 * per edge, a tab and "node4 -- node5". Inputs, and unused results (__getitem__), are left out, as
 * in PipeDream's optimizer. */
#include "partition/foreign/import.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MOST = 1e30;

typedef struct {
    const char *where, *text;
    size_t bytes, at;
    uint32_t line;
    char now[8192]; /* the line, without its end */
} reader;

#define BAD(r, ...)                                                                                \
    (pst_fail(PST_EINPUT, __VA_ARGS__), pst_fail_in(PST_EINPUT, "%s:%u", (r)->where, (r)->line))

static void rewind_to_start(reader *r) {
    r->at = 0;
    r->line = 0;
}

/* OK with *more 0 at the end. */
static pst_status next_line(reader *r, int *more) {
    *more = r->at < r->bytes;
    if (!*more) return PST_OK;
    const char *from = r->text + r->at, *end = memchr(from, '\n', r->bytes - r->at);
    size_t length = end ? (size_t)(end - from) : r->bytes - r->at;
    r->at += length + (end != NULL);
    r->line++;
    if (length && from[length - 1] == '\r') length--;
    if (length >= sizeof r->now)
        return BAD(r, "the line is longer than %zu bytes", sizeof r->now - 1);
    memcpy(r->now, from, length);
    r->now[length] = 0;
    if (strlen(r->now) != length) return BAD(r, "a byte 0");
    return PST_OK;
}

static int is_blank(const char *line) { return line[strspn(line, " \t")] == 0; }

/* "node12" or "12"; *rest: what follows. */
static pst_status read_id(const reader *r, const char *text, int64_t *id, const char **rest) {
    const char *digits = text + (strncmp(text, "node", 4) ? 0 : 4);
    size_t n = strspn(digits, "0123456789");
    if (n < 1 || n > 9) return BAD(r, "'%.20s': expected 'node' and a number, such as node4", text);
    *id = strtol(digits, NULL, 10);
    *rest = digits + n;
    return PST_OK;
}

/* The value after `key` and '=': a number, or the sum of a list of them in brackets. */
static pst_status read_value(const reader *r, const char *text, const char *key, double *to) {
    const char *at = strstr(text, key);
    double sum = 0;
    if (!at || at[strlen(key)] != '=') return BAD(r, "%s=NUMBER is missing", key);
    at += strlen(key) + 1;
    int list = *at == '[';
    for (at += list;; at++) {
        char *end;
        double x = strtod(at, &end);
        if (end == at || !(x >= 0 && x <= MOST))
            return BAD(r, "%s: '%.*s': expected a number of at least 0", key,
                       (int)strcspn(at, ",] "), at);
        sum += x;
        at = end + strspn(end, " ");
        if (!list || *at == ']') break;
        if (*at != ';')
            return BAD(r, "%s: '%.20s': expected numbers in brackets, separated by ';'", key, end);
    }
    *to = sum;
    return PST_OK;
}

/* --- first pass: counts, and which nodes are left out ----------------------------------------- */

typedef struct {
    pst_import_id *ids;
    uint8_t *input, *result, *has_before, *has_next; /* by node, in the order of the lines */
    uint32_t n, n_edge;
} outline;

static pst_status read_outline(reader *r, outline *o) {
    for (int more = 1;;) {
        PST_TRY(next_line(r, &more));
        if (!more) break;
        if (is_blank(r->now)) continue;
        if (r->now[0] == '\t') {
            if (++o->n_edge > PST_IMPORT_EDGES)
                return BAD(r, "more than %d edges", PST_IMPORT_EDGES);
            continue;
        }
        if (o->n == PST_IMPORT_NODES - 1) return BAD(r, "more than %d nodes", PST_IMPORT_NODES - 1);
        const char *rest;
        int64_t id = 0;
        PST_TRY(read_id(r, r->now, &id, &rest));
        if (strncmp(rest, " -- ", 4))
            return BAD(r, "'%.20s': expected ' -- ' after the node's name", rest);
        o->input[o->n] = !strncmp(rest + 4, "Input", 5);
        o->result[o->n] = !strncmp(rest + 4, "__getitem__", 11);
        o->ids[o->n] = (pst_import_id){id, o->n};
        o->n++;
    }
    if (!o->n)
        return pst_fail(PST_EINPUT, "%s: the file is neither JSON nor a graph.txt with nodes",
                        r->where);
    return pst_import_sort(o->ids, o->n, r->where);
}

static pst_status read_edge(const reader *r, const outline *o, pst_import_edge *e) {
    const char *rest = r->now + strspn(r->now, "\t ");
    for (int end = 0; end < 2; end++) {
        int64_t id = 0;
        PST_TRY(read_id(r, rest, &id, &rest));
        uint32_t node = pst_import_find(o->ids, o->n, id);
        if (node == PST_IMPORT_NODES) return BAD(r, "no node has the name node%lld", (long long)id);
        *(end ? &e->to : &e->from) = node;
        if (end ? !is_blank(rest) : strncmp(rest, " -- ", 4) != 0)
            return BAD(r, "'%.20s': expected two nodes with ' -- ' between them", rest);
        if (!end) rest += 4;
    }
    return PST_OK;
}

/* --- second pass ------------------------------------------------------------------------------ */

static pst_status read_edges(reader *r, outline *o, pst_import_edge *edge) {
    uint32_t n = 0;
    for (int more = 1;;) {
        PST_TRY(next_line(r, &more));
        if (!more) return PST_OK;
        if (r->now[0] != '\t' || is_blank(r->now)) continue;
        pst_import_edge *e = &edge[n++];
        PST_TRY(read_edge(r, o, e));
        o->has_before[e->to] = 1;
    }
}

/* number: [n] index of each remaining node, in the order of the lines; PST_IMPORT_NODES: none. */
static uint32_t number_nodes(const outline *o, const pst_import_edge *edge, uint32_t *number) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_edge; i++) o->has_next[edge[i].from] = 1;
    for (uint32_t v = 0; v < o->n; v++) {
        int out = (o->input[v] && !o->has_before[v]) || (o->result[v] && !o->has_next[v]);
        number[v] = out ? PST_IMPORT_NODES : n++;
    }
    return n;
}

static pst_status read_node(const reader *r, pst_import *im, uint32_t v) {
    double forward = 0, backward = 0, activation = 0;
    const char *rest, *values = strstr(r->now, " -- forward_compute_time=");
    PST_TRY(read_id(r, r->now, &im->id[v], &rest));
    if (!values) return BAD(r, "forward_compute_time=NUMBER is missing");
    PST_TRY(read_value(r, values, "forward_compute_time", &forward));
    PST_TRY(read_value(r, values, "backward_compute_time", &backward));
    PST_TRY(read_value(r, values, "activation_size", &activation));
    PST_TRY(read_value(r, values, "parameter_size", &im->parameters[v]));
    im->time[v] = (forward + backward) / 1000;
    im->size[v] = activation + im->parameters[v];
    im->class_of[v] = v;
    return PST_OK;
}

static pst_status read_nodes(reader *r, const uint32_t *number, pst_import *im) {
    uint32_t v = 0;
    for (int more = 1;;) {
        PST_TRY(next_line(r, &more));
        if (!more) return PST_OK;
        if (r->now[0] == '\t' || is_blank(r->now)) continue;
        if (number[v] < PST_IMPORT_NODES) PST_TRY(read_node(r, im, number[v]));
        v++;
    }
}

static pst_status read_graph(reader *r, outline *o, pst_import_edge *edge, uint32_t *number,
                             pst_import *im) {
    rewind_to_start(r);
    PST_TRY(read_edges(r, o, edge));
    uint32_t n = number_nodes(o, edge, number), n_edge = 0;
    if (!n)
        return pst_fail(PST_EINPUT, "%s: the graph has only input nodes; expected operators",
                        r->where);
    PST_TRY(pst_import_allocate(im, n, o->n_edge, 1));
    for (uint32_t i = 0; i < o->n_edge; i++) {
        pst_import_edge e = {number[edge[i].from], number[edge[i].to]};
        if (e.from < n && e.to < n) im->edge[n_edge++] = e;
    }
    im->n_edge = n_edge;
    im->n_class = n;
    rewind_to_start(r);
    return read_nodes(r, number, im);
}

pst_status pst_import_pipedream(const char *text, size_t bytes, const char *where, pst_import *im) {
    reader *r = calloc(1, sizeof *r);
    outline o = {0};
    pst_import_edge *edge = NULL;
    uint32_t *number = NULL;
    im->format = PST_IMPORT_PIPEDREAM;
    im->unit = "s";
    im->kind[0].name = "gpu";
    im->kind[0].memory = INFINITY;
    o.ids = calloc(PST_IMPORT_NODES, sizeof *o.ids);
    o.input = calloc(4, PST_IMPORT_NODES);
    pst_status status = PST_OK;
    if (!r || !o.ids || !o.input)
        status = pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    if (status == PST_OK) {
        o.result = o.input + PST_IMPORT_NODES;
        o.has_before = o.result + PST_IMPORT_NODES;
        o.has_next = o.has_before + PST_IMPORT_NODES;
        *r = (reader){.where = where, .text = text, .bytes = bytes};
        status = read_outline(r, &o);
    }
    if (status == PST_OK) {
        edge = calloc((size_t)o.n_edge + 1, sizeof *edge);
        number = calloc((size_t)o.n + 1, sizeof *number);
        if (!edge || !number)
            status = pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    }
    if (status == PST_OK) status = read_graph(r, &o, edge, number, im);
    free(r);
    free(o.ids);
    free(o.input);
    free(edge);
    free(number);
    return status;
}
