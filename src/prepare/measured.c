/* See measured.h. The trace has an event of category "operator" for each execution of an operator,
 * and one of category "SEND" for each message (pipeline/draw/trace.c). */
#include "prepare/measured.h"
#include "pipeline/draw/timeline.h"
#include "pipeline/layout/plan.h"
#include "prepare/link_times.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *node; /* borrowed from the trace's JSON */
    int pass, is_sum;
    double us;
    uint32_t n;
} row;

typedef struct {
    uint32_t from, to; /* ranks */
    uint64_t bytes, ns;
} message;

struct pst_measured {
    json_t *trace;
    size_t n, n_message;
    row *rows;         /* sorted; one entry per operator and pass */
    message *messages; /* sorted; one entry per size and pair of ranks */
};

static int by_operator(const void *a, const void *b) {
    const row *x = a, *y = b;
    int names = strcmp(x->node, y->node);
    if (names) return names;
    return x->pass != y->pass ? x->pass - y->pass : x->is_sum - y->is_sum;
}

static int is_measured(const json_t *event) {
    return json_integer_value(json_object_get(event, "pid")) < PST_TRACE_PREDICTED;
}

static pst_pass pass_of(char letter) {
    if (letter == 'F') return PST_PASS_F;
    return letter == 'B' ? PST_PASS_B : PST_PASS_W;
}

/* Reads an event; returns 0 if it is not a measured one, or is a recomputation. */
static int read_event(const json_t *event, row *r) {
    const json_t *args = json_object_get(event, "args"), *dur = json_object_get(event, "dur");
    const char *category = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *pass = json_string_value(json_object_get(args, "pass"));
    const char *operator= json_string_value(json_object_get(args, "operator"));
    if (!category || strcmp(category, "operator") || !name || !pass ||
        !operator|| !json_is_number(dur))
        return 0;
    if (!is_measured(event) || strlen(pass) != 1 || !strchr("FBW", *pass)) return 0;
    *r = (row){.node = (char *)(uintptr_t)name,
               .pass = pass_of(*pass),
               .is_sum = !strcmp(operator, "sum"),
               .us = json_number_value(dur),
               .n = 1};
    return 1;
}

/* --- messages --------------------------------------------------------------------------------- */

static int by_pair(const void *a, const void *b) {
    const message *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Duration of the transfer, without the wait for the other end. */
static int read_message(const json_t *event, message *m) {
    const json_t *args = json_object_get(event, "args"), *rank = json_object_get(args, "rank");
    const json_t *peer = json_object_get(args, "peer"), *bytes = json_object_get(args, "bytes");
    const json_t *us = json_object_get(args, "predicted_us");
    const char *category = json_string_value(json_object_get(event, "cat"));
    if (!category || strcmp(category, "SEND") || !is_measured(event)) return 0;
    if (!json_is_integer(rank) || !json_is_integer(peer) || !json_is_integer(bytes) ||
        !json_is_number(us))
        return 0;
    double ns = json_number_value(us) * 1e3;
    if (json_integer_value(bytes) < 0 || !(ns >= 0 && ns < 1e18)) return 0;
    *m = (message){(uint32_t)json_integer_value(rank), (uint32_t)json_integer_value(peer),
                   (uint64_t)json_integer_value(bytes), (uint64_t)(ns + 0.5)};
    return 1;
}

static void sort_messages(pst_measured *m) {
    size_t n = 0;
    if (m->n_message) qsort(m->messages, m->n_message, sizeof *m->messages, by_pair);
    for (size_t i = 0; i < m->n_message; i++)
        if (!n || by_pair(&m->messages[n - 1], &m->messages[i])) m->messages[n++] = m->messages[i];
    m->n_message = n;
}

/* Keeps the largest sizes if there are more than a link can have. */
static void find_link(const pst_measured *m, uint32_t from, uint32_t to, pst_link_times *l) {
    l->n = 0;
    for (size_t i = m->n_message; i-- > 0 && l->n < PST_LINK_SIZES;)
        if (m->messages[i].from == from && m->messages[i].to == to) l->n++;
    uint32_t k = l->n;
    for (size_t i = m->n_message; i-- > 0 && k;) {
        const message *x = &m->messages[i];
        if (x->from == from && x->to == to) {
            k--;
            l->bytes[k] = x->bytes;
            l->ns[k] = x->ns;
        }
    }
    l->latency_ns = l->n > 1 ? l->ns[0] : 0; /* a message of the gradient norm: not timed */
}

pst_status pst_measured_time_messages(const pst_measured *m, pst_job *job) {
    if (!m) return PST_OK;
    /* sets all messages of one rank, in both directions */
    pst_link_times *links = calloc(job->n_rank, sizeof *links);
    if (!links) return pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", job->n_rank);
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (int out = 0; out < 2; out++) {
            for (uint32_t peer = 0; peer < job->n_rank; peer++)
                find_link(m, out ? r : peer, out ? peer : r, &links[peer]);
            for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
                pst_instr *in = &job->list[r].instr[i];
                if (in->opcode != (out ? PST_OP_SEND : PST_OP_RECV)) continue;
                if (links[in->peer].n) pst_link_times_set(&links[in->peer], in);
            }
        }
    free(links);
    return PST_OK;
}

/* --- operators -------------------------------------------------------------------------------- */

static void join(pst_measured *m) {
    size_t n = 0;
    if (m->n) qsort(m->rows, m->n, sizeof *m->rows, by_operator);
    for (size_t i = 0; i < m->n; i++) {
        if (n && !by_operator(&m->rows[n - 1], &m->rows[i])) {
            m->rows[n - 1].us += m->rows[i].us;
            m->rows[n - 1].n++;
            continue;
        }
        m->rows[n++] = m->rows[i];
    }
    m->n = n;
}

static pst_status check_plan(const char *folder, const pst_graph *g) {
    char path[1024];
    pst_plan *plan;
    snprintf(path, sizeof path, "%s/plan.yaml", folder);
    PST_TRY(pst_plan_load(path, &plan));
    pst_status status = pst_plan_check(plan, g);
    pst_plan_close(plan);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "parallel.measured: %s", path);
}

pst_status pst_measured_load(const char *folder, const pst_graph *g, pst_measured **measured) {
    char path[1024];
    json_error_t why;
    PST_TRY(check_plan(folder, g));
    snprintf(path, sizeof path, "%s/trace.json", folder);
    pst_measured *m = calloc(1, sizeof *m);
    if (!m) return pst_fail(PST_ENOMEM, "no memory for %s", path);
    pst_status status = PST_OK;
    if (!(m->trace = json_load_file(path, 0, &why)))
        status =
            pst_fail(PST_EINPUT, "parallel.measured: %s: line %d: %s", path, why.line, why.text);
    const json_t *events = json_object_get(m->trace, "traceEvents");
    size_t n = json_array_size(events);
    if (status == PST_OK && (!(m->rows = malloc((n + 1) * sizeof *m->rows)) ||
                             !(m->messages = malloc((n + 1) * sizeof *m->messages))))
        status = pst_fail(PST_ENOMEM, "no memory for %s", path);
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        const json_t *event = json_array_get(events, i);
        m->n += (size_t)read_event(event, &m->rows[m->n]);
        m->n_message += (size_t)read_message(event, &m->messages[m->n_message]);
    }
    if (status == PST_OK && !m->n)
        status = pst_fail(PST_EINPUT,
                          "parallel.measured: %s has no operators; use the trace of a run with "
                          "fewer micro-batches",
                          path);
    if (status != PST_OK) {
        pst_measured_close(m);
        return status;
    }
    join(m);
    sort_messages(m);
    *measured = m;
    return PST_OK;
}

void pst_measured_close(pst_measured *m) {
    if (!m) return;
    json_decref(m->trace);
    free(m->rows);
    free(m->messages);
    free(m);
}

uint64_t pst_measured_ns(const pst_measured *m, const char *node, pst_pass pass, int is_sum) {
    const row key = {.node = (char *)(uintptr_t)node, .pass = (int)pass, .is_sum = is_sum != 0};
    const row *found = m ? bsearch(&key, m->rows, m->n, sizeof key, by_operator) : NULL;
    return found ? (uint64_t)(found->us / found->n * 1e3 + 0.5) : 0;
}
