/* Reads metrics.jsonl, line by line. */
#include "report/data.h"
#include "base/grow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 8 << 20, MAX_KINDS = 64 };
static const double MAX_STEP = 1e15;

double pst_report_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    double x = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(x) <= 1e100 ? x : NAN;
}

const char *pst_report_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* --- growing ---------------------------------------------------------------------------------- */

static const char what[] = "to read the metrics of a run";

static pst_status grow(double **at, size_t capacity) {
    return pst_grow_to(at, sizeof **at, capacity, what);
}

static pst_status reserve_step(pst_report_metrics *m) {
    if (m->n < m->capacity) return PST_OK;
    size_t capacity = m->capacity ? 2 * m->capacity : 256;
    PST_TRY(grow(&m->step, capacity));
    for (int k = 0; k < PST_REPORT_CURVE_COUNT; k++) PST_TRY(grow(&m->curve[k], capacity));
    m->capacity = capacity;
    return PST_OK;
}

static pst_status reserve_validation(pst_report_metrics *m) {
    if (m->n_validation < m->validation_capacity) return PST_OK;
    size_t capacity = m->validation_capacity ? 2 * m->validation_capacity : 64;
    PST_TRY(grow(&m->validation_step, capacity));
    PST_TRY(grow(&m->validation_loss, capacity));
    m->validation_capacity = capacity;
    return PST_OK;
}

static pst_status reserve_ranks(pst_report_metrics *m, size_t n) {
    if (n > PST_REPORT_RANKS) n = PST_REPORT_RANKS;
    if (n <= m->n_rank) return PST_OK;
    PST_TRY(pst_grow_to(&m->memory, sizeof *m->memory, n, what));
    for (size_t r = m->n_rank; r < n; r++) m->memory[r] = (pst_report_memory){NAN, NAN, NAN};
    m->n_rank = (uint32_t)n;
    return PST_OK;
}

/* --- lines ------------------------------------------------------------------------------------ */

static double bytes_at(const json_t *line, const char *key, uint32_t rank) {
    const json_t *value = json_array_get(json_object_get(line, key), rank);
    double x = json_is_number(value) ? json_number_value(value) : NAN;
    return x >= 0 && x <= 0x1p60 ? x : NAN;
}

static pst_status read_memory(const json_t *line, pst_report_metrics *m) {
    PST_TRY(reserve_ranks(m, json_array_size(json_object_get(line, "peak_bytes"))));
    PST_TRY(reserve_ranks(m, json_array_size(json_object_get(line, "predicted_peak_bytes"))));
    for (uint32_t r = 0; r < m->n_rank; r++) {
        pst_report_memory *of = &m->memory[r];
        of->peak = bytes_at(line, "peak_bytes", r);
        of->predicted_peak = bytes_at(line, "predicted_peak_bytes", r);
        double resident = bytes_at(line, "resident_bytes", r);
        if (!(resident <= of->resident) && !isnan(resident)) of->resident = resident;
    }
    return PST_OK;
}

/* Sums up work_s. The first step touches memory for the first time, so it counts only until
 * there is a second one. */
static pst_status read_work(const json_t *line, pst_report_metrics *m) {
    json_t *work = json_object_get(line, "work_s"), *value;
    const char *kind;
    double ms = pst_report_number(line, "step_ms");
    if (!json_object_size(work) || !(ms >= 0)) return PST_OK;
    if (m->n == 1) {
        json_object_clear(m->work);
        m->work_wall = 0;
    }
    m->work_wall += ms * 1e-3 * (double)json_array_size(json_object_get(line, "peak_bytes"));
    json_object_foreach(work, kind, value) {
        double s = pst_report_number(work, kind), sum = pst_report_number(m->work, kind);
        if (!(s >= 0) || (isnan(sum) && json_object_size(m->work) >= MAX_KINDS)) continue;
        if (json_object_set_new(m->work, kind, json_real(isnan(sum) ? s : sum + s)) != 0)
            return pst_no_memory("to read the metrics of a run");
    }
    return PST_OK;
}

static pst_status read_step(const json_t *line, pst_report_metrics *m) {
#define KEY(name, key) key,
    static const char *const keys[] = {PST_REPORT_CURVES(KEY)};
#undef KEY
    double step = pst_report_number(line, "step");
    if (!(step >= 0 && step <= MAX_STEP) || (m->n && step <= m->step[m->n - 1])) {
        m->n_bad++;
        return PST_OK;
    }
    PST_TRY(reserve_step(m));
    PST_TRY(read_memory(line, m));
    PST_TRY(read_work(line, m));
    m->step[m->n] = step;
    for (int k = 0; k < PST_REPORT_CURVE_COUNT; k++)
        m->curve[k][m->n] = pst_report_number(line, keys[k]);
    m->n++;
    return PST_OK;
}

static void keep(json_t **place, json_t *line) {
    json_decref(*place);
    *place = json_incref(line);
}

static pst_status read_validation(const json_t *line, pst_report_metrics *m) {
    double step = pst_report_number(line, "step");
    double last = m->n_validation ? m->validation_step[m->n_validation - 1] : -1;
    if (!(step >= last && step >= 0 && step <= MAX_STEP)) {
        m->n_bad++;
        return PST_OK;
    }
    if (step == last)
        m->n_validation--; /* a completed run that was evaluated again on more tokens */
    PST_TRY(reserve_validation(m));
    json_t *sets = json_object_get(line, "sets");
    if (json_object_size(sets) && json_object_size(sets) <= MAX_KINDS) {
        keep(&m->sets, sets);
        m->sets_step = step;
    }
    m->validation_step[m->n_validation] = step;
    m->validation_loss[m->n_validation++] = pst_report_number(line, "loss");
    return PST_OK;
}

static pst_status read_start(json_t *line, pst_report_metrics *m) {
    const json_t *bytes = json_object_get(line, "predicted_region_bytes");
    const json_int_t ranks = (json_int_t)json_array_size(json_object_get(bytes, "weights"));
    json_t *member = json_pack("[f,I]", pst_report_number(line, "step"), ranks);
    if (!m->n_start++) m->first_time = pst_report_number(line, "time");
    m->n_going_on += json_is_true(json_object_get(line, "goes_on"));
    keep(&m->start, line);
    keep(&m->end, NULL);
    if (!member || json_array_append_new(m->members, member) != 0)
        return pst_no_memory("to read the metrics of a run");
    return PST_OK;
}

static pst_status read_event(json_t *line, pst_report_metrics *m) {
    const char *event = pst_report_text(line, "event");
    if (!strcmp(event, "validation")) return read_validation(line, m);
    if (!strcmp(event, "start")) PST_TRY(read_start(line, m));
    m->n_recovery += !strcmp(event, "recovery");
    m->n_resize += !strcmp(event, "resize");
    if (!strcmp(event, "end")) keep(&m->end, line);
    json_t *list = m->n_event++ < PST_REPORT_HEAD ? m->head : m->tail;
    if (json_array_append(list, line) != 0) return pst_no_memory("to read the metrics of a run");
    if (json_array_size(m->tail) > PST_REPORT_TAIL) json_array_remove(m->tail, 0);
    return PST_OK;
}

static pst_status read_line(const char *text, size_t bytes, pst_report_metrics *m) {
    json_t *line = json_loadb(text, bytes, 0, NULL);
    pst_status status = PST_OK;
    if (!json_is_object(line)) m->n_bad++;
    else if (json_object_get(line, "event")) status = read_event(line, m);
    else status = read_step(line, m);
    json_decref(line);
    return status;
}

pst_status pst_report_read_metrics(FILE *file, pst_report_metrics *m) {
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    pst_status status = PST_OK;
    m->first_time = NAN;
    m->head = json_array();
    m->tail = json_array();
    m->members = json_array();
    m->work = json_object();
    if (!m->head || !m->tail || !m->work) return pst_no_memory("to read the metrics of a run");
    while (status == PST_OK && (n = getline(&text, &capacity, file)) > 0) {
        if (n > MAX_LINE) m->n_bad++;
        else status = read_line(text, (size_t)n, m);
    }
    free(text);
    return status;
}

void pst_report_release_metrics(pst_report_metrics *m) {
    free(m->step);
    free(m->validation_step);
    free(m->validation_loss);
    free(m->memory);
    for (int k = 0; k < PST_REPORT_CURVE_COUNT; k++) free(m->curve[k]);
    json_decref(m->sets);
    json_decref(m->work);
    json_decref(m->start);
    json_decref(m->end);
    json_decref(m->head);
    json_decref(m->tail);
    json_decref(m->members);
    *m = (pst_report_metrics){0};
}
