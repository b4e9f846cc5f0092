/* See order.h. The file is text: lines of the run, then for each period its steps and its order. */
#include "run/order.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 30 };

void pst_order_close(pst_order *o) {
    for (uint32_t i = 0; i < o->n; i++) free(o->period[i].order);
    free(o->period);
    *o = (pst_order){.n = 0};
}

/* --- the run ---------------------------------------------------------------------------------- */

/* What must be equal in the run that repeats the order. Servers, stages and schedules may differ.
 */
typedef struct {
    const char *name;
    uint64_t value;
} fact;

enum { FACTS = 5 };
/* Begins the line with the micro-batches of each worker in a step. */
static const char SHARES[] = "micro_batches";

static void facts_of(const pst_prepared *p, fact out[FACTS]) {
    const uint64_t ahead = pst_prepare_ahead(p->config);
    const fact all[FACTS] = {{"workers", p->grid.data},
                             {"batch", (uint64_t)p->config->train.batch},
                             {"micro_batch", p->plan->layout.micro_batch},
                             {"staleness", ahead == UINT64_MAX ? 0 : ahead},
                             {"model", p->plan->graph_hash}};
    memcpy(out, all, sizeof all);
}

static pst_status write_facts(FILE *f, const pst_prepared *p) {
    fact all[FACTS];
    facts_of(p, all);
    fprintf(f, "penstock order 1\n");
    for (int i = 0; i < FACTS; i++) fprintf(f, "%s %" PRIu64 "\n", all[i].name, all[i].value);
    fprintf(f, "%s", SHARES);
    for (uint32_t k = 0; k < p->grid.data; k++) fprintf(f, " %u", p->micro[k + 1] - p->micro[k]);
    fputc('\n', f);
    return ferror(f) ? PST_ENOMEM : PST_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct {
    const char *path, *at, *end;
    uint32_t line;
} reader;

static pst_status bad(const reader *r, const char *what) {
    return pst_fail(PST_EINPUT, "%s:%u: %s", r->path, r->line, what);
}

/* The next line, without its end; 0: there is none. *whole: it ends with a line break. */
static int next_line(reader *r, const char **line, size_t *n) {
    if (r->at == r->end) return 0;
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->line++;
    *line = r->at;
    *n = (size_t)((stop ? stop : r->end) - r->at);
    r->at = stop ? stop + 1 : r->end;
    return stop ? 1 : -1;
}

/* A line that must be there and complete. */
static pst_status take_line(reader *r, const char **line, size_t *n) {
    const int found = next_line(r, line, n);
    if (found == 1) return PST_OK;
    r->line += !found;
    return bad(r, "the file is cut off here");
}

/* A whole number in decimal, and the blank before it. */
static int take_number(const char **at, const char *end, uint64_t most, uint64_t *value) {
    char *stop;
    if (*at == end || **at != ' ' || *at + 1 == end || (*at)[1] < '0' || (*at)[1] > '9') return 0;
    errno = 0;
    *value = strtoull(*at + 1, &stop, 10);
    if (errno || *value > most) return 0;
    *at = stop;
    return 1;
}

static pst_status read_shares(reader *r, const pst_prepared *p) {
    const char *line;
    size_t n;
    const size_t name = sizeof SHARES - 1;
    PST_TRY(take_line(r, &line, &n));
    const char *at = line + name;
    if (n < name || memcmp(line, SHARES, name))
        return bad(r, "expected 'micro_batches' and a number for each worker");
    for (uint32_t k = 0; k < p->grid.data; k++) {
        const uint32_t here = p->micro[k + 1] - p->micro[k];
        uint64_t value;
        if (!take_number(&at, line + n, UINT32_MAX, &value))
            return bad(r, "expected 'micro_batches' and a number for each worker");
        if (value != here)
            return pst_fail(PST_EINPUT,
                            "%s:%u: worker %u had %" PRIu64 " micro-batches of a step, but has %u "
                            "in this run; set parallel.replicas to the numbers of this line",
                            r->path, r->line, k, value, here);
    }
    return at == line + n ? PST_OK : bad(r, "the line has more numbers than workers");
}

static pst_status read_facts(reader *r, const pst_prepared *p) {
    const char *line, *first = "penstock order 1";
    size_t n;
    fact all[FACTS];
    facts_of(p, all);
    PST_TRY(take_line(r, &line, &n));
    if (n != strlen(first) || memcmp(line, first, n))
        return bad(r, "not an order of updates; expected the line 'penstock order 1'");
    for (int i = 0; i < FACTS; i++) {
        const size_t name = strlen(all[i].name);
        uint64_t value;
        PST_TRY(take_line(r, &line, &n));
        const char *at = line + name;
        if (n <= name || memcmp(line, all[i].name, name) ||
            !take_number(&at, line + n, UINT64_MAX, &value) || at != line + n) {
            char what[80];
            snprintf(what, sizeof what, "expected '%s' and a number", all[i].name);
            return bad(r, what);
        }
        if (value == all[i].value) continue;
        return pst_fail(PST_EINPUT,
                        "%s:%u: the order is of a run with %s %" PRIu64 ", but this run has "
                        "%" PRIu64 "; replay it with the same %s",
                        r->path, r->line, all[i].name, value, all[i].value,
                        i + 1 == FACTS ? "model" : all[i].name);
    }
    return read_shares(r, p);
}

/* Each worker as many times as the period has steps, and never further ahead than allowed. taken:
 * [workers] working memory. */
static pst_status read_updates(reader *r, const pst_order *o, uint64_t ahead, uint64_t steps,
                               uint64_t *taken, uint16_t *order) {
    const char *line;
    size_t n;
    PST_TRY(take_line(r, &line, &n));
    const char *at = line, *end = line + n;
    memset(taken, 0, o->workers * sizeof *taken);
    for (uint64_t i = 0; i < steps * o->workers; i++) {
        uint64_t worker;
        if (!take_number(&at, end, o->workers - 1, &worker))
            return bad(r, "a worker is missing or unknown: the line is damaged or cut off");
        for (uint32_t k = 0; k < o->workers; k++)
            if (taken[worker] > taken[k] && taken[worker] - taken[k] > ahead)
                return bad(r, "a worker is further ahead than parallel.staleness allows");
        if (++taken[worker] > steps) return bad(r, "a worker occurs more often than it has steps");
        order[i] = (uint16_t)worker;
    }
    return at == end ? PST_OK : bad(r, "the line has more updates than steps x workers");
}

static pst_status read_period(reader *r, const char *line, size_t n, uint64_t ahead, pst_order *o) {
    const char *at = line + strlen("steps"), *end = line + n;
    uint64_t from, to;
    const uint64_t before = o->n ? o->period[o->n - 1].to : UINT64_MAX;
    if (n < strlen("steps") || memcmp(line, "steps", strlen("steps")) ||
        !take_number(&at, end, UINT32_MAX, &from) || !take_number(&at, end, UINT32_MAX, &to) ||
        at != end || to <= from || (o->n && from != before))
        return bad(r, "expected 'steps', the step before, and the last one of a period that "
                      "follows the one above");
    PST_TRY(pst_grow(&o->period, sizeof *o->period, o->n, &o->room, "for the order of updates"));
    const size_t each = (size_t)((to - from) * o->workers);
    uint64_t *taken = malloc(o->workers * sizeof *taken);
    pst_order_period *p = &o->period[o->n++];
    *p = (pst_order_period){from, to, NULL};
    /* each number needs two bytes of the file */
    if (each > (size_t)(r->end - r->at)) {
        free(taken);
        return bad(r, "the file is cut off behind this line");
    }
    p->order = malloc((each + 1) * sizeof *p->order);
    pst_status status = taken && p->order ? PST_OK : pst_no_memory("for the order of updates");
    if (status == PST_OK) status = read_updates(r, o, ahead, to - from, taken, p->order);
    free(taken);
    return status;
}

typedef struct {
    const pst_prepared *p;
    pst_order *order;
} parsing;

static pst_status parse(const char *text, size_t bytes, const char *path, void *arg) {
    const parsing *x = arg;
    reader r = {path, text, text + bytes, 0};
    const char *line;
    size_t n;
    int found;
    PST_TRY(read_facts(&r, x->p));
    while ((found = next_line(&r, &line, &n)) == 1)
        PST_TRY(read_period(&r, line, n, pst_prepare_ahead(x->p->config), x->order));
    return found ? bad(&r, "the file is cut off here") : PST_OK;
}

static pst_status read_all(const char *path, const pst_prepared *p, pst_order *o) {
    parsing x = {p, o};
    *o = (pst_order){.workers = p->grid.data};
    return pst_file_parse(path, MOST_BYTES, parse, &x);
}

const pst_order_period *pst_order_at(const pst_order *o, uint64_t step) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->period[i].from == step) return &o->period[i];
    return NULL;
}

uint64_t pst_order_end(const pst_order *o) { return o->n ? o->period[o->n - 1].to : 0; }

pst_status pst_order_read(const char *path, const pst_prepared *p, uint64_t from, pst_order *o) {
    const uint64_t steps = (uint64_t)p->config->train.steps;
    PST_TRY(read_all(path, p, o));
    const uint64_t last = pst_order_end(o), until = last < steps ? last : steps;
    const pst_order_period *end = NULL;
    if (!last) return pst_fail(PST_EINPUT, "%s: the order has no steps", path);
    for (uint32_t i = 0; i < o->n && !(end && end->to == until); i++) end = &o->period[i];
    if (!end || end->to != until)
        return pst_fail(PST_EINPUT,
                        "%s: no period of the order ends with step %" PRIu64
                        ", the last one of this run; use the train.steps of the run that wrote it",
                        path, until);
    if (from < steps && !pst_order_at(o, from))
        return pst_fail(PST_EINPUT,
                        "%s: no period of the order begins after step %" PRIu64
                        ", with which this run begins",
                        path, from);
    return PST_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

pst_status pst_order_write(FILE *f, const pst_prepared *p, const pst_order_period *period) {
    const size_t each = (size_t)((period->to - period->from) * p->grid.data);
    fprintf(f, "steps %" PRIu64 " %" PRIu64 "\n", period->from, period->to);
    for (size_t i = 0; i < each; i++) fprintf(f, " %u", period->order[i]);
    fputc('\n', f);
    return fflush(f) == 0 && !ferror(f) ? PST_OK
                                        : pst_fail(PST_ENOMEM, "order.txt: %s", strerror(errno));
}

/* How many periods end at step `from` or before, if the last of them ends there; else EINPUT. */
static pst_status find_kept(const pst_order *o, uint64_t from, uint32_t *kept) {
    uint32_t n = 0;
    while (n < o->n && o->period[n].to <= from) n++;
    const uint64_t end = n ? o->period[n - 1].to : 0;
    if (end != from)
        return pst_fail(PST_EINPUT, "it has no period that ends after step %" PRIu64, from);
    *kept = n;
    return PST_OK;
}

/* The file of a run that took other steps since, or with another layout: it stays under another
 * name. */
static pst_status set_aside(const char *path, uint64_t from) {
    char aside[PATH_MAX];
    const size_t n = strlen(path) - strlen(".txt");
    snprintf(aside, sizeof aside, "%.*s-before-%" PRIu64 ".txt", (int)n, path, from);
    pst_log(PST_LOG_WARN,
            "the order of updates cannot be continued (%s): it is kept as %s, and order.txt begins "
            "with step %" PRIu64,
            pst_error(), aside, from + 1);
    pst_error_clear();
    if (rename(path, aside)) return pst_fail(PST_ENOMEM, "%s: %s", aside, strerror(errno));
    return PST_OK;
}

/* *kept: the periods of an existing file that stay. */
static pst_status read_kept(const char *path, const pst_prepared *p, uint64_t from, pst_order *o,
                            uint32_t *kept) {
    *kept = 0;
    *o = (pst_order){.n = 0};
    if (!from || access(path, F_OK)) return PST_OK;
    pst_status status = read_all(path, p, o);
    if (status == PST_OK) status = find_kept(o, from, kept);
    return status == PST_EINPUT ? set_aside(path, from) : status;
}

/* What a file of this run begins with: the facts, and periods that stay. */
typedef struct {
    const pst_prepared *p;
    const pst_order *order;
    uint32_t kept;
} beginning;

static pst_status print_beginning(const void *what, FILE *out) {
    const beginning *b = what;
    PST_TRY(write_facts(out, b->p));
    for (uint32_t i = 0; i < b->kept; i++)
        PST_TRY(pst_order_write(out, b->p, &b->order->period[i]));
    return PST_OK;
}

pst_status pst_order_append(const char *path, const pst_prepared *p, uint64_t from, FILE **out) {
    pst_order o;
    beginning b = {.p = p, .order = &o};
    *out = NULL;
    pst_status status = read_kept(path, p, from, &o, &b.kept);
    if (status == PST_OK) status = pst_file_replace_own(path, print_beginning, &b);
    pst_order_close(&o);
    if (status == PST_OK && !(*out = fopen(path, "ae")))
        status = pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    return status;
}
