/* `penstock runs`: a table of all runs in a folder, from their files. */
#include "penstock/run.h"
#include "report/table.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { HEALTH = 160 };

typedef struct {
    char name[256], state[32], step[2 * PST_TABLE_CELL], loss[PST_TABLE_CELL], best[PST_TABLE_CELL],
        rate[PST_TABLE_CELL], left[PST_TABLE_CELL], health[HEALTH];
} row;

static int has_metrics(const char *folder) {
    char path[1300];
    struct stat s;
    int used = snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    return used < (int)sizeof path && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* Seconds since the last line of metrics.jsonl was written; NaN: unknown. */
static double silent_s(const char *folder) {
    char path[1300];
    struct stat s;
    snprintf(path, sizeof path, "%.1200s/metrics.jsonl", folder);
    return stat(path, &s) == 0 ? difftime(time(NULL), s.st_mtime) : NAN;
}

static size_t count(const pst_report_metrics *m, const char *event) {
    const json_t *lists[] = {m->head, m->tail};
    size_t n = 0, i;
    json_t *line;
    for (int k = 0; k < 2; k++)
        json_array_foreach(lists[k], i, line) n += !strcmp(pst_report_text(line, "event"), event);
    return n;
}

static void note(char health[HEALTH], const char *text) {
    size_t used = strlen(health);
    snprintf(health + used, HEALTH - used, "%s%s", used ? ", " : "", text);
}

static void note_count(char health[HEALTH], size_t n, const char *one, const char *several) {
    char text[64];
    snprintf(text, sizeof text, "%zu %s", n, n == 1 ? one : several);
    if (n) note(health, text);
}

/* A run that computes writes a line in a few times the duration of a step. */
static void find_health(const char *folder, const pst_report_data *d, double step_ms, row *r) {
    const double slow = 10, least_s = 60;
    const pst_report_metrics *m = &d->metrics;
    char clock[PST_TABLE_CELL], text[80];
    double silent = silent_s(folder), may = slow * step_ms * 1e-3;
    if (!(may > least_s)) may = least_s;
    note_count(r->health, count(m, "non_finite"), "non-finite step", "non-finite steps");
    note_count(r->health, count(m, "spike"), "spike", "spikes");
    note_count(r->health, count(m, "checkpoint_failed"), "failed checkpoint", "failed checkpoints");
    note_count(r->health, m->n_bad, "damaged line", "damaged lines");
    if (m->n && isnan(m->curve[PST_REPORT_LOSS][m->n - 1]) && !pst_report_is_timed(d))
        note(r->health, "loss is not finite");
    snprintf(text, sizeof text, "no step for %s", pst_table_clock(silent, clock));
    if (d->running && silent > may) note(r->health, text);
    if (!*r->health) note(r->health, "good");
}

/* Of a running run, in seconds: its tokens at the recent rate. Runs of earlier versions do not say
 * how many they will have: their steps. */
static double time_left(const pst_report_data *d, double steps, double ms, double rate) {
    const pst_report_metrics *m = &d->metrics;
    const double tokens = pst_report_number(m->start, "run_tokens");
    const double last = m->n ? m->step[m->n - 1] : 0;
    const double done = m->n ? m->curve[PST_REPORT_TOKENS][m->n - 1] : 0;
    if (!d->running) return NAN;
    return isnan(tokens) ? (steps - last) * ms * 1e-3 : (tokens - done) / rate;
}

static pst_status fill(const char *folder, const pst_report_data *d, row *r) {
    const pst_report_metrics *m = &d->metrics;
    char done[PST_TABLE_CELL], all[PST_TABLE_CELL];
    double steps = pst_table_steps(d), last = m->n ? m->step[m->n - 1] : 0, ms, rate, at;
    const char *why = pst_report_text(m->end, "why");
    PST_TRY(pst_table_recent(d, PST_REPORT_STEP_MS, &ms));
    PST_TRY(pst_table_recent(d, PST_REPORT_RATE, &rate));
    snprintf(r->name, sizeof r->name, "%s", d->name);
    snprintf(r->state, sizeof r->state, "%s", d->running ? "running" : "failed or killed");
    if (m->end) snprintf(r->state, sizeof r->state, "%.30s", *why ? why : "ended");
    snprintf(r->step, sizeof r->step, "%s/%s", pst_table_whole(last, done),
             pst_table_whole(steps, all));
    pst_table_loss(m->n ? m->curve[PST_REPORT_LOSS][m->n - 1] : NAN, r->loss);
    pst_table_loss(pst_table_best(d, &at), r->best);
    pst_table_whole(rate, r->rate);
    pst_table_clock(time_left(d, steps, ms, rate), r->left);
    find_health(folder, d, ms, r);
    return PST_OK;
}

static pst_status read_row(const char *folder, row *r) {
    pst_report_data d;
    *r = (row){.name = ""};
    PST_TRY(pst_report_read_numbers(folder, &d));
    pst_status status = fill(folder, &d, r);
    pst_report_release(&d);
    return status;
}

static void print_rows(const row *rows, size_t n, FILE *out) {
    size_t name = strlen("run"), state = strlen("state"), step = strlen("step");
    for (size_t i = 0; i < n; i++) {
        if (strlen(rows[i].name) > name) name = strlen(rows[i].name);
        if (strlen(rows[i].state) > state) state = strlen(rows[i].state);
        if (strlen(rows[i].step) > step) step = strlen(rows[i].step);
    }
    fprintf(out, "%-*s  %-*s  %*s  %8s  %10s  %9s  %9s  %s\n", (int)name, "run", (int)state,
            "state", (int)step, "step", "loss", "validation", "tokens/s", "left", "health");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%-*s  %-*s  %*s  %8s  %10s  %9s  %9s  %s\n", (int)name, rows[i].name,
                (int)state, rows[i].state, (int)step, rows[i].step, rows[i].loss, rows[i].best,
                rows[i].rate, rows[i].left, rows[i].health);
}

static int visible(const struct dirent *e) { return *e->d_name != '.'; }

/* Reads the runs in the order of their names. */
static pst_status read_rows(const char *folder, row *rows, struct dirent **entry, size_t n_entry,
                            size_t *n) {
    for (size_t i = 0; i < n_entry; i++) {
        char path[1200];
        int used = snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        if (used >= (int)sizeof path || !has_metrics(path)) continue;
        PST_TRY(read_row(path, &rows[(*n)++]));
    }
    return *n ? PST_OK : pst_fail(PST_EINPUT, "%s has no folder with a metrics.jsonl", folder);
}

static pst_status print_folder(const char *folder, FILE *out) {
    struct dirent **entry;
    int n_entry = scandir(folder, &entry, visible, versionsort);
    if (n_entry < 0)
        return pst_fail(pst_status_of_errno(errno), "%s: %s; expected the folder of runs", folder,
                        strerror(errno));
    row *rows = calloc((size_t)n_entry + 1, sizeof *rows);
    size_t n = 0;
    pst_status status = rows ? read_rows(folder, rows, entry, (size_t)n_entry, &n)
                             : pst_no_memory("for a table of runs");
    if (status == PST_OK) print_rows(rows, n, out);
    for (int i = 0; i < n_entry; i++) free(entry[i]);
    free(entry);
    free(rows);
    return status;
}

pst_status pst_runs_print(const char *folder, FILE *out) {
    row one;
    if (!folder || !*folder) folder = "runs";
    if (!has_metrics(folder)) return print_folder(folder, out);
    PST_TRY(read_row(folder, &one));
    print_rows(&one, 1, out);
    return PST_OK;
}
