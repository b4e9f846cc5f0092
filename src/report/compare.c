/* `penstock compare`: two runs beside each other, from their files. */
#include "base/plural.h"
#include "penstock/run.h"
#include "report/page.h"
#include "report/table.h"
#include "report/typical.h"
#include "tokenizer/tokenizer.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *folder[2];
    pst_report_data run[2];
} pair;

enum { SHOWN = 60 /* characters of a value */, ROWS = 10 /* of the table of losses */ };

/* --- settings --------------------------------------------------------------------------------- */

typedef struct {
    FILE *out;
    int n; /* differences */
} settings;

static void print_setting(settings *s, const char *key, const char *a, const char *b) {
    fprintf(s->out, "  %-30s  %-*.*s  %.*s\n", key, SHOWN / 2, SHOWN, a, SHOWN, b);
    s->n++;
}

static uint64_t hash_of_tokenizer(const char *path) {
    pst_tokenizer *t;
    if (pst_tokenizer_open(path, &t) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    const uint64_t hash = pst_tokenizer_hash(t);
    pst_tokenizer_close(t);
    return hash;
}

/* Every run has a copy of its tokenizer in its folder. */
static int is_one_tokenizer(const char *a, const char *b) {
    const uint64_t hash = hash_of_tokenizer(a);
    return hash && hash == hash_of_tokenizer(b);
}

static void print_key(void *arg, const char *key, const char *a, const char *b) {
    const int same = !strcmp(key, "data.tokenizer") && is_one_tokenizer(a, b);
    if (!same && strcmp(key, "name") != 0) print_setting(arg, key, a, b);
}

/* A text in the start lines, such as machine.host. */
static void print_fact(const pair *p, const char *object, const char *key, settings *s) {
    char name[64];
    const char *text[2];
    for (int i = 0; i < 2; i++)
        text[i] = pst_report_text(json_object_get(p->run[i].metrics.start, object), key);
    if (!strcmp(text[0], text[1])) return;
    snprintf(name, sizeof name, "%s.%s", object, key);
    print_setting(s, name, *text[0] ? text[0] : "-", *text[1] ? text[1] : "-");
}

/* --- the layout ------------------------------------------------------------------------------- */

enum { LAYOUT_TEXT = 256, N_LAYOUT = 7 };
static const char *const layout_key[N_LAYOUT] = {
    "layout.ranks",         "layout.grid", "layout.schedule",  "layout.operators",
    "layout.micro_batches", "layout.zero", "layout.recompute",
};

/* The operators of each chunk. */
static void list_operators(const pst_layout *l, char text[LAYOUT_TEXT]) {
    size_t at = 0;
    for (uint32_t c = 0; c < l->n_chunk && at < LAYOUT_TEXT; c++)
        at += (size_t)snprintf(text + at, LAYOUT_TEXT - at, "%s%u to %u", c ? ", " : "",
                               l->first_item[c], l->first_item[c + 1] - 1);
}

static void list_recompute(const pst_layout *l, char text[LAYOUT_TEXT]) {
    size_t at = 0;
    char way[PST_RECOMPUTE_TEXT];
    for (uint32_t c = 0; c < l->n_chunk && at < LAYOUT_TEXT; c++)
        at += (size_t)snprintf(text + at, LAYOUT_TEXT - at, "%s%s", c ? ", " : "",
                               pst_recompute_text(l->recompute[c], way));
}

static void describe_layout(const pst_plan *plan, char text[N_LAYOUT][LAYOUT_TEXT]) {
    const pst_layout *l = &plan->layout;
    char rest[PST_LAYOUT_REST_TEXT];
    snprintf(text[0], LAYOUT_TEXT, "%u", pst_plan_job_ranks(plan));
    pst_grid_text(pst_plan_grid(plan), text[1]);
    if (!*text[1]) snprintf(text[1], LAYOUT_TEXT, "one lane");
    snprintf(text[2], LAYOUT_TEXT, "%s", l->schedule);
    list_operators(l, text[3]);
    snprintf(text[4], LAYOUT_TEXT, "%u of %u%s", l->n_micro, l->micro_batch,
             pst_layout_rest_text(l, rest));
    snprintf(text[5], LAYOUT_TEXT, "%u", l->zero);
    list_recompute(l, text[6]);
}

/* What the plans of the runs say; keys of run files need not, as the number of ranks may not be
 * among them. */
static void print_layout(const pair *p, settings *s) {
    char text[2][N_LAYOUT][LAYOUT_TEXT];
    if (!p->run[0].plan || !p->run[1].plan) return;
    for (int i = 0; i < 2; i++) describe_layout(p->run[i].plan, text[i]);
    for (int k = 0; k < N_LAYOUT; k++)
        if (strcmp(text[0][k], text[1][k]) != 0)
            print_setting(s, layout_key[k], text[0][k], text[1][k]);
}

static void print_settings(const pair *p, FILE *out) {
    static const char *const fact[][2] = {{"machine", "host"},    {"machine", "cpu"},
                                          {"machine", "kernels"}, {"versions", "penstock"},
                                          {"versions", "commit"}, {"versions", "onednn"},
                                          {"versions", "ucx"}};
    settings s = {.out = out};
    fprintf(out, "\nsettings that differ\n");
    if (p->run[0].config && p->run[1].config)
        pst_config_show_differences(p->run[0].config, p->run[1].config, print_key, &s);
    print_layout(p, &s);
    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
        print_fact(p, fact[i][0], fact[i][1], &s);
    if (!s.n) fprintf(out, "  none\n");
}

/* --- steps ------------------------------------------------------------------------------------ */

/* A step that both runs have: its indices. */
typedef struct {
    size_t i, j;
} common;

/* The next common step from *at on; 0: there is none. */
static int find_common(const pair *p, common *at) {
    const pst_report_metrics *a = &p->run[0].metrics, *b = &p->run[1].metrics;
    while (at->i < a->n && at->j < b->n) {
        if (a->step[at->i] == b->step[at->j]) return 1;
        if (a->step[at->i] < b->step[at->j]) at->i++;
        else at->j++;
    }
    return 0;
}

static double value_of(const pair *p, int run, pst_report_curve curve, common at) {
    return p->run[run].metrics.curve[curve][run ? at.j : at.i];
}

static int differs(const pair *p, pst_report_curve curve, common at) {
    double a = value_of(p, 0, curve, at), b = value_of(p, 1, curve, at);
    return a != b && !(isnan(a) && isnan(b));
}

static void print_first(const pair *p, common at, FILE *out) {
    int loss = differs(p, PST_REPORT_LOSS, at);
    pst_report_curve curve = loss ? PST_REPORT_LOSS : PST_REPORT_GRAD_NORM;
    fprintf(out, "first difference: step %.0f, %s %.17g and %.17g\n", p->run[0].metrics.step[at.i],
            loss ? "loss" : "gradient norm", value_of(p, 0, curve, at), value_of(p, 1, curve, at));
}

/* *n: number of common steps. */
static void print_difference(const pair *p, size_t *n, FILE *out) {
    const char *hash[2];
    int found = 0;
    *n = 0;
    for (common at = {0, 0}; find_common(p, &at); at.i++, at.j++, ++*n) {
        if (found) continue;
        found = differs(p, PST_REPORT_LOSS, at) || differs(p, PST_REPORT_GRAD_NORM, at);
        if (found) print_first(p, at, out);
    }
    if (!*n) fprintf(out, "the runs have no step in common\n");
    else if (!found)
        fprintf(out,
                "first difference: none; the losses and gradient norms of %zu common step%s are "
                "equal, to the bit\n",
                *n, pst_plural(*n));
    for (int i = 0; i < 2; i++) hash[i] = pst_report_text(p->run[i].metrics.end, "weights_xxh64");
    if (*hash[0] && *hash[1])
        fprintf(out, "final weights: %s\n",
                strcmp(hash[0], hash[1]) ? "different" : "equal, to the bit");
}

static void print_losses(const pair *p, size_t n, FILE *out) {
    size_t every = (n + ROWS - 1) / ROWS, k = 0;
    char a[PST_TABLE_CELL], b[PST_TABLE_CELL];
    if (!n) return;
    fprintf(out, "\n%12s  %12s  %12s  %12s\n", "step", "loss A", "loss B", "B - A");
    for (common at = {0, 0}; find_common(p, &at); at.i++, at.j++, k++) {
        if (k % every && k + 1 != n) continue;
        double x = value_of(p, 0, PST_REPORT_LOSS, at), y = value_of(p, 1, PST_REPORT_LOSS, at);
        fprintf(out, "%12.0f  %12s  %12s  %+12.6f\n", p->run[0].metrics.step[at.i],
                pst_table_loss(x, a), pst_table_loss(y, b), y - x);
    }
}

/* --- results ---------------------------------------------------------------------------------- */

static void print_row(const char *what, const double value[2], const char *format, FILE *out) {
    char text[2][PST_TABLE_CELL], ratio[PST_TABLE_CELL];
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], isnan(value[i]) ? "-" : format, value[i]);
    snprintf(ratio, sizeof ratio, "%.3f", value[1] / value[0]);
    fprintf(out, "%-30s  %14s  %14s  %8s\n", what, text[0], text[1],
            isfinite(value[1] / value[0]) ? ratio : "-");
}

/* Ranks that the run had before it was resumed on fewer have no number. */
static double peak_mib(const pst_report_metrics *m) {
    double most = NAN;
    for (uint32_t r = 0; r < m->n_rank; r++)
        if (isnan(most) || m->memory[r].peak > most) most = m->memory[r].peak;
    return most / 0x1p20;
}

static pst_status print_results(const pair *p, FILE *out) {
    double last[2], loss[2], best[2], at[2], rate[2], ms[2], peak[2], tokens[2];
    for (int i = 0; i < 2; i++) {
        const pst_report_metrics *m = &p->run[i].metrics;
        last[i] = m->n ? m->step[m->n - 1] : NAN;
        loss[i] = m->n ? m->curve[PST_REPORT_LOSS][m->n - 1] : NAN;
        tokens[i] = m->n ? m->curve[PST_REPORT_TOKENS][m->n - 1] : NAN;
        best[i] = pst_table_best(&p->run[i], &at[i]);
        peak[i] = peak_mib(m);
        size_t first = pst_report_settled(m);
        PST_TRY(pst_report_median(m->n ? m->curve[PST_REPORT_STEP_MS] + first : NULL, m->n - first,
                                  &ms[i]));
        PST_TRY(pst_report_median(m->n ? m->curve[PST_REPORT_RATE] + first : NULL, m->n - first,
                                  &rate[i]));
    }
    fprintf(out, "\n%-30s  %14s  %14s  %8s\n", "", "A", "B", "B / A");
    print_row("last step", last, "%.0f", out);
    print_row("tokens", tokens, "%.0f", out);
    print_row("loss of that step", loss, "%.6f", out);
    print_row("lowest validation loss", best, "%.6f", out);
    print_row("  at step", at, "%.0f", out);
    print_row("step time, median, ms", ms, "%.2f", out);
    print_row("tokens/s, median", rate, "%.0f", out);
    print_row("arena written, most, MiB", peak, "%.1f", out);
    return PST_OK;
}

static pst_status print_pair(const pair *p, FILE *out) {
    size_t n;
    fprintf(out, "A: %s\nB: %s\n\n", p->folder[0], p->folder[1]);
    print_difference(p, &n, out);
    print_settings(p, out);
    PST_TRY(print_results(p, out));
    print_losses(p, n, out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno)) : PST_OK;
}

pst_status pst_runs_compare(const char *a, const char *b, FILE *out) {
    pair p = {.folder = {a, b}};
    PST_TRY(pst_report_read_numbers(a, &p.run[0]));
    pst_status status = pst_report_read_numbers(b, &p.run[1]);
    for (int i = 0; status == PST_OK && i < 2; i++) pst_report_read_plan(p.folder[i], &p.run[i]);
    if (status == PST_OK) status = print_pair(&p, out);
    pst_report_release(&p.run[0]);
    pst_report_release(&p.run[1]);
    return status;
}
