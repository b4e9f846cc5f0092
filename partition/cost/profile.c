/* See profile.h; profile_file.c reads and writes the file. */
#include "partition/cost/profile.h"
#include "base/plural.h"
#include "graph/tape.h"
#include "graph/op.h"
#include "pipeline/compile/cut.h"
#include "base/grow.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MICRO = 1024 }; /* the largest micro-batch to extrapolate from */

struct pst_profile {
    pst_profile_head head;
    uint32_t n;
    size_t room;
    int sorted;
    pst_profile_row *row;
};

/* --- shapes ----------------------------------------------------------------------------------- */

static void say(char text[PST_PROFILE_TEXT], const char *fmt, ...) PST_PRINTF(2, 3);
static void say(char text[PST_PROFILE_TEXT], const char *fmt, ...) {
    size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, PST_PROFILE_TEXT - n, fmt, args);
    va_end(args);
}

static void say_dims(char text[PST_PROFILE_TEXT], uint32_t n, const uint64_t *dim) {
    for (uint32_t i = 0; i < n; i++) say(text, "%s%" PRIu64, i ? "x" : " ", dim[i]);
}

/* Writes the shape of a tensor with `micro_batch` samples per micro-batch. */
static void say_tensor(char text[PST_PROFILE_TEXT], const pst_graph *g, uint32_t tensor,
                       uint32_t micro_batch) {
    const pst_tensor *t = g->tensor + tensor;
    uint64_t dim[PST_MAX_DIM];
    memcpy(dim, t->dim, sizeof dim);
    if (t->n_dim && dim[0] == g->micro_batch) dim[0] = micro_batch;
    say_dims(text, t->n_dim, dim);
}

static void say_attributes(const pst_graph *g, const pst_node *node, char text[PST_PROFILE_TEXT]) {
    const pst_attr *a = &node->attr;
    if (node->n_param) {
        /* a bias, or positions, cost little, and only one of the tensor ranks has them */
        say(text, " w");
        say_dims(text, g->param[node->param[0]].n_dim, g->param[node->param[0]].dim);
    }
    if (a->heads) say(text, " heads %u", a->heads);
    if (a->activation != PST_ACT_NONE) say(text, " %s", pst_activation_name(a->activation));
    if (a->rate > 0) say(text, " rate %g", (double)a->rate);
    if (a->parts > 1) say(text, " of %u", a->parts);
}

static const char *shape_of(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                            uint32_t micro_batch, char text[PST_PROFILE_TEXT]) {
    *text = 0;
    if (extra == PST_EXTRA_SUM) { /* the sum of two gradients of its input */
        say(text, "sum");
        say_tensor(text, g, node->in[0], micro_batch);
        return text;
    }
    static const char *const letter[PST_PASS_COUNT] = {
        [PST_PASS_F] = "F", [PST_PASS_B] = "B", [PST_PASS_W] = "W"};
    say(text, "%s %s", node->op->name, extra == PST_EXTRA_RESTORE ? "restore" : letter[pass]);
    for (uint32_t i = 0; i < node->n_in; i++) say_tensor(text, g, node->in[i], micro_batch);
    say_attributes(g, node, text);
    return text;
}

const char *pst_profile_shape(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                              char text[PST_PROFILE_TEXT]) {
    return shape_of(g, node, extra, pass, g->micro_batch, text);
}

/* --- rows ------------------------------------------------------------------------------------- */

pst_status pst_profile_open(const pst_profile_head *head, pst_profile **profile) {
    pst_profile *p = calloc(1, sizeof *p);
    if (!p) return pst_fail(PST_ENOMEM, "no memory for a profile");
    p->head = *head;
    *profile = p;
    return PST_OK;
}

void pst_profile_close(pst_profile *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n; i++) free(p->row[i].text);
    free(p->row);
    free(p);
}

const pst_profile_head *pst_profile_head_of(const pst_profile *p) { return &p->head; }

static int by_key(const void *a, const void *b) {
    const pst_profile_row *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    int text = strcmp(x->text, y->text);
    return text ? text : (x->size > y->size) - (x->size < y->size);
}

/* Rows are sorted, because the planner looks them up often. */
static pst_profile_row *find(const pst_profile *p, pst_profile_kind kind, const char *text,
                             uint64_t size) {
    const pst_profile_row key = {.kind = kind, .text = (char *)(uintptr_t)text, .size = size};
    return p->n ? bsearch(&key, p->row, p->n, sizeof key, by_key) : NULL;
}

const pst_profile_row *pst_profile_rows(const pst_profile *p, uint32_t *n) {
    *n = p->n;
    return p->row;
}

static pst_status make_room(pst_profile *p) {
    if (p->n == PST_PROFILE_ROWS)
        return pst_fail(PST_EINPUT, "too many durations; a profile can have at most %d",
                        PST_PROFILE_ROWS);
    return pst_grow(&p->row, sizeof *p->row, p->n, &p->room, "for a profile");
}

pst_status pst_profile_set(pst_profile *p, pst_profile_kind kind, const char *text, uint64_t size,
                           int busy, double ns) {
    pst_profile_row fresh = {
        .kind = kind, .text = (char *)(uintptr_t)(text ? text : ""), .size = size};
    pst_profile_row *row = find(p, kind, fresh.text, size);
    if (!row) {
        PST_TRY(make_room(p));
        if (!(fresh.text = strdup(fresh.text)))
            return pst_fail(PST_ENOMEM, "no memory for a profile");
        uint32_t at = p->n;
        while (at && by_key(&fresh, &p->row[at - 1]) < 0) at--;
        memmove(p->row + at + 1, p->row + at, (p->n++ - at) * sizeof *p->row);
        p->row[at] = fresh;
        row = p->row + at;
    }
    row->ns[busy != 0] = ns;
    return PST_OK;
}

/* --- machine of a profile --------------------------------------------------------------------- */

static pst_status differ(const char *what, const char *its, const char *here) {
    return !strcmp(its, here)
               ? PST_OK
               : pst_fail(PST_EINPUT, "the profile was measured with %s '%s', not '%s'", what, its,
                          here);
}

pst_status pst_profile_check(const pst_profile *p, const pst_profile_head *here) {
    const pst_profile_head *h = &p->head;
    PST_TRY(differ("device", *h->device ? h->device : "cpu", *here->device ? here->device : "cpu"));
    PST_TRY(differ("device", h->model, here->model));
    PST_TRY(differ("precision", h->precision, here->precision));
    PST_TRY(differ("optimizer", h->optimizer, here->optimizer));
    if (*h->device) return PST_OK; /* the machine around it does not matter */
    PST_TRY(differ("processor", h->cpu, here->cpu));
    PST_TRY(differ("instruction set", h->isa, here->isa));
    if (h->cpus != here->cpus)
        return pst_fail(PST_EINPUT,
                        "the profile was measured on a machine with %u processors, not %u", h->cpus,
                        here->cpus);
    if (h->threads != here->threads)
        return pst_fail(PST_EINPUT, "the profile was measured with %u thread%s per rank, not %u",
                        h->threads, pst_plural(h->threads), here->threads);
    return PST_OK;
}

pst_status pst_profile_joins(const pst_profile *p, const pst_profile_head *other) {
    PST_TRY(pst_profile_check(p, other));
    if (p->head.ranks == other->ranks) return PST_OK;
    return pst_fail(PST_EINPUT, "the profile was measured with %u rank%s, not %u", p->head.ranks,
                    pst_plural(p->head.ranks), other->ranks);
}

pst_status pst_profile_merge(pst_profile *to, const pst_profile *from) {
    PST_TRY(pst_profile_joins(from, &to->head));
    return pst_profile_force(to, from);
}

pst_status pst_profile_force(pst_profile *to, const pst_profile *from) {
    for (uint32_t i = 0; i < from->n; i++) {
        const pst_profile_row *r = &from->row[i];
        for (int busy = 0; busy < 2; busy++)
            if (r->ns[busy] > 0)
                PST_TRY(pst_profile_set(to, r->kind, r->text, r->size, busy, r->ns[busy]));
    }
    memcpy(to->head.date, from->head.date, sizeof to->head.date);
    memcpy(to->head.penstock, from->head.penstock, sizeof to->head.penstock);
    return PST_OK;
}

/* --- lookups ---------------------------------------------------------------------------------- */

/* A row's duration while `busy` ranks compute, interpolated. */
static double row_ns(const pst_profile *p, const pst_profile_row *r, uint32_t busy) {
    double alone = r->ns[0] > 0 ? r->ns[0] : r->ns[1], all = r->ns[1] > 0 ? r->ns[1] : r->ns[0];
    if (busy <= 1) return alone;
    if (busy >= p->head.ranks) return all;
    return alone + (all - alone) * (busy - 1) / (p->head.ranks - 1);
}

static uint64_t interpolate(const pst_profile *p, pst_profile_kind kind, const char *text,
                            uint64_t size, uint32_t busy) {
    const pst_profile_row *below = NULL, *above = NULL;
    for (uint32_t i = 0; p && i < p->n; i++) {
        const pst_profile_row *r = &p->row[i];
        if (r->kind != kind || strcmp(r->text, text)) continue;
        if (r->size <= size) below = r;
        else if (!above) above = r;
    }
    if (!below && !above) return 0;
    if (!below) {
        int sized = kind == PST_PROFILE_NORM || kind == PST_PROFILE_STEP ||
                    kind == PST_PROFILE_REDUCE || kind == PST_PROFILE_PACK;
        return (uint64_t)(row_ns(p, above, busy) *
                              (sized ? (double)size / (double)above->size : 1) +
                          0.5);
    }
    double ns = row_ns(p, below, busy);
    if (above)
        ns += (row_ns(p, above, busy) - ns) * (double)(size - below->size) /
              (double)(above->size - below->size);
    else if (below->size) ns *= (double)size / (double)below->size;
    return ns < 1e18 ? (uint64_t)(ns + 0.5) : (uint64_t)1e18;
}

uint64_t pst_profile_ns(const pst_profile *p, pst_profile_kind kind, uint64_t size, uint32_t busy) {
    return interpolate(p, kind, "", size, busy);
}

uint64_t pst_profile_exchange_ns(const pst_profile *p, uint32_t parts, uint64_t bytes) {
    char text[16];
    snprintf(text, sizeof text, "%u", parts);
    return interpolate(p, PST_PROFILE_EXCHANGE, text, bytes, 1);
}

static const pst_profile_row *find_pass(const pst_profile *p, const pst_graph *g,
                                        const pst_node *node, int extra, pst_pass pass,
                                        uint32_t micro_batch) {
    char text[PST_PROFILE_TEXT];
    return find(p, PST_PROFILE_PASS, shape_of(g, node, extra, pass, micro_batch, text), 0);
}

/* Interpolates between the next smaller and larger measured micro-batch (powers of two); with only
 * one of them, in proportion. 0: none was measured. */
static double other_micro_ns(const pst_profile *p, const pst_graph *g, const pst_node *node,
                             int extra, pst_pass pass, uint32_t busy) {
    const pst_profile_row *row[2] = {NULL, NULL}; /* below, above */
    double size[2] = {0, 0}, own = g->micro_batch;
    for (uint32_t m = 1; m <= MOST_MICRO && !row[1]; m *= 2) {
        const pst_profile_row *r = find_pass(p, g, node, extra, pass, m);
        if (r) {
            row[m > own] = r;
            size[m > own] = m;
        }
    }
    if (!row[0] && !row[1]) return 0;
    double ns = row_ns(p, row[row[0] ? 0 : 1], busy), from = size[row[0] ? 0 : 1];
    if (!row[0] || !row[1]) return ns * own / from;
    return ns + (row_ns(p, row[1], busy) - ns) * (own - from) / (size[1] - from);
}

uint64_t pst_profile_pass_ns(const pst_profile *p, const pst_graph *g, const pst_node *node,
                             int extra, pst_pass pass, uint32_t busy) {
    if (!p) return 0;
    const pst_profile_row *r = find_pass(p, g, node, extra, pass, g->micro_batch);
    double ns = r ? row_ns(p, r, busy) : other_micro_ns(p, g, node, extra, pass, busy);
    const pst_profile_row *launch = ns > 0 ? find(p, PST_PROFILE_LAUNCH, "", 0) : NULL;
    return (uint64_t)(ns + (launch ? row_ns(p, launch, busy) : 0) + 0.5);
}

/* Whether the comma-separated text contains the shape. */
static int has(const char *text, const char *shape) {
    size_t n = strlen(shape);
    for (const char *at = strstr(text, shape); at; at = strstr(at + 1, shape))
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ',')) return 1;
    return 0;
}

pst_status pst_profile_missing(const pst_profile *p, const pst_graph *g, uint32_t *missing,
                               uint32_t *steps, char *text, size_t bytes) {
    pst_tape *tape;
    uint32_t named = 0;
    PST_TRY(pst_tape_build(g, 1, &tape));
    *missing = *steps = 0;
    *text = 0;
    for (uint32_t i = 0; i < tape->n_step; i++) {
        char shape[PST_PROFILE_TEXT];
        const pst_tape_step *step = tape->step + i;
        int extra = tape->extra[i] ? PST_EXTRA_SUM : 0;
        if (pst_node_exchange(g->node + step->node, extra, step->pass)) continue;
        ++*steps;
        pst_profile_shape(g, g->node + step->node, extra, step->pass, shape);
        if (pst_profile_pass_ns(p, g, g->node + step->node, extra, step->pass, 1)) continue;
        size_t n = strlen(text);
        if (named < 3 && !has(text, shape)) {
            snprintf(text + n, bytes - n, "%s%s", n ? ", " : "", shape);
            named++;
        }
        ++*missing;
    }
    pst_tape_close(tape);
    return PST_OK;
}
