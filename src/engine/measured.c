/* See measured.h. The trace has one event of category "operator" for each time that an operator ran (pipeline/trace.c). */
#include "engine/measured.h"
#include "pipeline/plan.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *node; /* borrowed from the trace */
    int pass, is_sum;
    double us;
    uint32_t n;
} row;

struct pst_measured {
    json_t *trace;
    size_t n;
    row *rows; /* sorted; those of one operator and pass are joined */
};

static int by_operator(const void *a, const void *b) {
    const row *x = a, *y = b;
    int names = strcmp(x->node, y->node);
    return names ? names : x->pass != y->pass ? x->pass - y->pass : x->is_sum - y->is_sum;
}

/* What an event says; 0: it is none of what was measured, or computes something again. */
static int read_event(const json_t *event, row *r) {
    const json_t *args = json_object_get(event, "args"), *dur = json_object_get(event, "dur");
    const char *category = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *pass = json_string_value(json_object_get(args, "pass"));
    const char *operator= json_string_value(json_object_get(args, "operator"));
    if (!category || strcmp(category, "operator") || !name || !pass || !operator|| !json_is_number(dur)) return 0;
    if (json_integer_value(json_object_get(event, "pid")) || strlen(pass) != 1 || !strchr("FBW", *pass)) return 0;
    *r = (row){.node = (char *)(uintptr_t)name,
               .pass = *pass == 'F'   ? PST_PASS_F
                       : *pass == 'B' ? PST_PASS_B
                                      : PST_PASS_W,
               .is_sum = !strcmp(operator, "sum"),
               .us = json_number_value(dur),
               .n = 1};
    return 1;
}

static void join(pst_measured *m) {
    size_t n = 0;
    if (m->n) qsort(m->rows, m->n, sizeof *m->rows, by_operator);
    for (size_t i = 0; i < m->n; i++) {
        if (n && !by_operator(&m->rows[n - 1], &m->rows[i])) {
            m->rows[n - 1].us += m->rows[i].us, m->rows[n - 1].n++;
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
        status = pst_fail(PST_EINPUT, "parallel.measured: %s: line %d: %s", path, why.line, why.text);
    const json_t *events = json_object_get(m->trace, "traceEvents");
    size_t n = json_array_size(events);
    if (status == PST_OK && !(m->rows = malloc((n + 1) * sizeof *m->rows)))
        status = pst_fail(PST_ENOMEM, "no memory for %s", path);
    for (size_t i = 0; status == PST_OK && i < n; i++)
        m->n += (size_t)read_event(json_array_get(events, i), &m->rows[m->n]);
    if (status == PST_OK && !m->n)
        status =
            pst_fail(PST_EINPUT, "parallel.measured: %s has no operators; a run with fewer micro-batches has", path);
    if (status != PST_OK) {
        pst_measured_close(m);
        return status;
    }
    join(m);
    *measured = m;
    return PST_OK;
}

void pst_measured_close(pst_measured *m) {
    if (!m) return;
    json_decref(m->trace);
    free(m->rows);
    free(m);
}

uint64_t pst_measured_ns(const pst_measured *m, const char *node, pst_pass pass, int is_sum) {
    const row key = {.node = (char *)(uintptr_t)node, .pass = (int)pass, .is_sum = is_sum != 0};
    const row *found = m ? bsearch(&key, m->rows, m->n, sizeof key, by_operator) : NULL;
    return found ? (uint64_t)(found->us / found->n * 1e3 + 0.5) : 0;
}
