/* What holds of every trace: tracks do not overlap, each rank is a process with a name, each arrow
 * has two ends. */
#ifndef PST_TESTS_PIPELINE_TRACE_CHECK_H
#define PST_TESTS_PIPELINE_TRACE_CHECK_H
#include "pipeline/draw/timeline.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_TIDS = 8192, TRACE_PROCESSES = 64 };

typedef struct {
    size_t slices, operators, flows; /* of the whole file */
    size_t n;
    const json_t **slice; /* [n] those so far */
    double until[TRACE_TIDS];
    json_int_t pid_of[TRACE_TIDS]; /* 1 + the process that a thread belongs to; 0: to none yet */
    int named[TRACE_PROCESSES];    /* by process: measured ranks, then predicted ones */
    const json_t **start;          /* [flows] the slice of an arrow's start, NULL; and */
    double *left;                  /* [flows] when it starts */
} trace_check;

static inline json_int_t trace_whole(const json_t *e, const char *key) {
    assert_true(json_is_integer(json_object_get(e, key)));
    return json_integer_value(json_object_get(e, key));
}
static inline double trace_number(const json_t *e, const char *key) {
    assert_true(json_is_number(json_object_get(e, key)));
    return json_number_value(json_object_get(e, key));
}
static inline const char *trace_text(const json_t *e, const char *key) {
    assert_true(json_is_string(json_object_get(e, key)));
    return json_string_value(json_object_get(e, key));
}
static inline json_int_t trace_rank(const json_t *e) {
    return trace_whole(e, "pid") % PST_TRACE_PREDICTED;
}
static inline json_int_t trace_args(const json_t *slice, const char *key) {
    return trace_whole(json_object_get(slice, "args"), key);
}

static inline void trace_add_slice(trace_check *c, const json_t *e) {
    json_int_t tid = trace_whole(e, "tid"), pid = trace_whole(e, "pid");
    double ts = trace_number(e, "ts"), dur = trace_number(e, "dur");
    assert_in_range(tid, 0, TRACE_TIDS - 1);
    assert_true(ts >= c->until[tid] - 1e-6 && dur >= 0);
    c->until[tid] = ts + dur;
    assert_true(!c->pid_of[tid] || c->pid_of[tid] == pid + 1);
    c->pid_of[tid] = pid + 1;
    assert_int_equal(trace_args(e, "rank"), trace_rank(e));
    c->slice[c->n++] = e;
    c->slices++;
    if (!strcmp(trace_text(e, "cat"), "operator")) c->operators++;
}

/* The slice of the arrow's thread that encloses it; as a viewer that reads the file once needs it,
 * before it. */
static inline const json_t *trace_enclosing(const trace_check *c, const json_t *flow) {
    double ts = trace_number(flow, "ts");
    for (size_t i = 0; i < c->n; i++) {
        const json_t *s = c->slice[i];
        double from = trace_number(s, "ts"), dur = trace_number(s, "dur");
        if (trace_whole(s, "tid") != trace_whole(flow, "tid") ||
            trace_whole(s, "pid") != trace_whole(flow, "pid"))
            continue;
        if (ts >= from - 1e-6 && (ts < from + dur - 1e-6 || (dur < 1e-6 && ts < from + 1e-6)))
            return s;
    }
    fail_msg("an arrow at %f us is on no slice", ts);
    return NULL;
}

/* Passes of micro-batches hand on what belongs to the same one. */
static inline int trace_is_pass(const json_t *slice) {
    const char *category = trace_text(slice, "cat");
    return strlen(category) <= 2 && strchr("FBW", *category);
}

static inline void trace_add_flow(trace_check *c, const json_t *e) {
    json_int_t id = trace_whole(e, "id");
    const json_t *slice = trace_enclosing(c, e);
    if (*trace_text(e, "ph") == 's') {
        assert_int_equal(id, c->flows);
        c->start[c->flows] = slice;
        c->left[c->flows++] = trace_number(e, "ts");
        return;
    }
    assert_in_range(id, 0, c->flows - 1);
    const json_t *start = c->start[id];
    assert_non_null(start); /* the only end */
    assert_string_equal(trace_text(e, "bp"), "e");
    assert_true(trace_rank(start) != trace_rank(e));
    assert_int_equal(trace_whole(start, "pid") / PST_TRACE_PREDICTED,
                     trace_whole(e, "pid") / PST_TRACE_PREDICTED);
    assert_true(trace_number(e, "ts") >= c->left[id]);
    /* viewers draw it to the start */
    assert_true(trace_number(e, "ts") < trace_number(slice, "ts") + 1e-6);
    if (trace_is_pass(start) && trace_is_pass(slice))
        assert_int_equal(trace_args(start, "micro_batch"), trace_args(slice, "micro_batch"));
    c->start[id] = NULL;
}

static inline void trace_add_name(trace_check *c, const json_t *e, uint32_t n_rank) {
    char name[64];
    json_int_t pid = trace_whole(e, "pid");
    if (strcmp(trace_text(e, "name"), "process_name")) return;
    assert_true(pid / PST_TRACE_PREDICTED <= 1 && trace_rank(e) < n_rank &&
                n_rank <= TRACE_PROCESSES / 2);
    snprintf(name, sizeof name, "rank %u (", (unsigned)trace_rank(e));
    const char *given = trace_text(json_object_get(e, "args"), "name");
    assert_memory_equal(given, name, strlen(name));
    assert_true(!strstr(given, ", predicted") == (pid < PST_TRACE_PREDICTED));
    assert_int_equal(c->named[trace_rank(e) + (pid < PST_TRACE_PREDICTED ? 0 : n_rank)]++, 0);
}

/* All of it; processes: ranks, and as many again where there is a prediction. */
static inline trace_check trace_holds(const json_t *root, uint32_t n_rank, uint32_t processes) {
    static trace_check c;
    const json_t *events = json_object_get(root, "traceEvents"), *e;
    size_t n = json_array_size(events), i;
    memset(&c, 0, sizeof c);
    c.slice = calloc(n + 1, sizeof *c.slice);
    c.start = calloc(n + 1, sizeof *c.start);
    c.left = calloc(n + 1, sizeof *c.left);
    assert_true(c.slice && c.start && c.left);
    json_array_foreach(events, i, e) {
        const char *phase = trace_text(e, "ph");
        if (*phase == 'X') trace_add_slice(&c, e);
        else if (*phase == 's' || *phase == 'f') trace_add_flow(&c, e);
        else trace_add_name(&c, e, n_rank);
    }
    for (i = 0; i < c.flows; i++) assert_null(c.start[i]); /* each has an end */
    for (i = 0; i < processes; i++) assert_int_equal(c.named[i], 1);
    free(c.slice);
    free(c.start);
    free(c.left);
    return c;
}
#endif
