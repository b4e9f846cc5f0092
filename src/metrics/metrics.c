/* See metrics.h. */
#include "metrics/metrics.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "metrics/parts.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pst_metrics {
    const pst_prepared *p;
    FILE *file;
    char *path;
    double peak_flops, started_s;
    pst_metrics_progress progress;
    int quiet, terminal, timed, line_open, complained, stdout_failed;
    pst_work work; /* sums over all ranks, without the first step of this process */
    uint64_t work_wall_ns, work_steps;
    pst_tensorboard tensorboard;
};

static double now_s(void) { return (double)pst_monotonic_ns() * 1e-9; }

/* --- the file --------------------------------------------------------------------------------- */

/* Which lines of a file stay: those of steps up to `step` (of step 0 only with `again`) and, with
 * `spikes`, all that report a spike. */
typedef struct {
    uint64_t step;
    int spikes, again;
} kept;

static int is_kept(const json_t *line, kept keep) {
    const json_t *step = json_object_get(line, "step");
    const char *event = json_string_value(json_object_get(line, "event"));
    if (!json_is_integer(step) || (event && !strcmp(event, "end"))) return 0;
    return (uint64_t)json_integer_value(step) <= keep.step ||
           (keep.spikes && event && !strcmp(event, "spike"));
}

/* Copies the lines that stay to `to`; 0: failed. A line that is no JSON was incomplete when its run
 * died. */
static int copy_kept(FILE *from, FILE *to, kept keep) {
    char *line = NULL;
    size_t capacity = 0;
    int good = 1;
    while (good && getline(&line, &capacity, from) > 0) {
        json_error_t error;
        json_t *j = json_loads(line, 0, &error);
        if (is_kept(j, keep)) fputs(line, to);
        good = j || json_error_code(&error) != json_error_out_of_memory;
        json_decref(j);
    }
    free(line);
    return good && feof(from) && fflush(to) == 0 && !ferror(to);
}

/* Starts metrics.jsonl anew with the lines that stay. */
static pst_status begin_file(const char *path, kept keep, FILE *to) {
    const int some = keep.step || keep.spikes || keep.again;
    FILE *old = some ? fopen(path, "re") : NULL;
    if (!old && some && errno != ENOENT)
        return pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    int good = !old || copy_kept(old, to, keep), error = errno;
    if (old) fclose(old);
    return good ? PST_OK : pst_fail(PST_ENOMEM, "%s: %s", path, strerror(error));
}

/* Opens a new file for appending; replaces a link of that name. */
static pst_status open_file(const char *path, kept keep, FILE **file) {
    char *fresh = NULL;
    FILE *f = NULL;
    PST_TRY(pst_file_create_beside(path, &fresh, &f));
    pst_status status = begin_file(path, keep, f);
    if (status == PST_OK && rename(fresh, path) != 0)
        status = pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    if (status == PST_OK) {
        *file = f;
    } else {
        fclose(f);
        unlink(fresh);
    }
    free(fresh);
    return status;
}

static void write_line(pst_metrics *m, json_t *line) {
    int failed = !line || json_dumpf(line, m->file, JSON_REAL_PRECISION(17) | JSON_COMPACT) != 0;
    json_decref(line);
    failed |= fputc('\n', m->file) == EOF || fflush(m->file) != 0;
    if (failed && !m->complained) {
        m->complained = 1;
        pst_log(PST_LOG_ERROR, "cannot write %s (%s); training continues without metrics", m->path,
                strerror(errno));
    }
    if (failed) clearerr(m->file);
}

pst_status pst_metrics_open(const pst_prepared *p, const pst_metrics_options *o,
                            pst_metrics **metrics) {
    const char *folder = o->folder;
    uint64_t keep_steps = o->keep_steps;
    pst_metrics *m = calloc(1, sizeof *m);
    if (!m) return pst_fail(PST_ENOMEM, "no memory for metrics");
    *m = (pst_metrics){.p = p,
                       .peak_flops = o->peak.flops,
                       .quiet = o->show == PST_SHOW_NOTHING,
                       .terminal = o->show == PST_SHOW_LIVE && isatty(STDOUT_FILENO),
                       .progress = {.first = keep_steps,
                                    .steps = (uint64_t)p->config->train.steps,
                                    .every = (uint64_t)p->config->eval.every,
                                    .passes = o->passes,
                                    .batches = &p->batches},
                       .started_s = now_s(),
                       .timed = !strcmp(p->config->parallel.device, "timed")};
    if (asprintf(&m->path, "%s/metrics.jsonl", folder) < 0) m->path = NULL;
    const kept keep = {.step = keep_steps, .again = o->again};
    pst_status status = m->path ? open_file(m->path, keep, &m->file)
                                : pst_fail(PST_ENOMEM, "no memory for metrics");
    if (status != PST_OK) {
        pst_metrics_close(m);
        return status;
    }
    json_t *start = pst_metrics_start(p, keep_steps, &o->peak);
    if (start && o->again) json_object_set_new(start, "goes_on", json_true());
    if (!start) {
        pst_metrics_close(m);
        return pst_fail(PST_ENOMEM, "no memory for metrics");
    }
    write_line(m, start);
    pst_tensorboard_open(p, folder, keep_steps, &m->tensorboard);
    *metrics = m;
    return PST_OK;
}

void pst_metrics_close(pst_metrics *m) {
    if (!m) return;
    pst_metrics_newline(m);
    if (m->file) fclose(m->file);
    pst_tensorboard_close(&m->tensorboard);
    free(m->path);
    free(m);
}

/* --- progress --------------------------------------------------------------------------------- */

void pst_metrics_newline(pst_metrics *m) {
    if (m && m->line_open) {
        fputc('\n', stdout);
        fflush(stdout);
        m->line_open = 0;
    }
}

/* 0:05, 12:34, 7:05:00. */
static const char *clock_text(double seconds, char out[32]) {
    long long s = seconds < 1e12 ? (long long)seconds : 1000000000000;
    if (s < 3600) snprintf(out, 32, "%lld:%02lld", s / 60, s % 60);
    else snprintf(out, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static double signless(double x) {
    return isnan(x) ? (double)NAN : x;
} /* for printing: no "-nan" */

/* Training does not need a reader of stdout, but somebody may still read stderr. */
static void flush_stdout(pst_metrics *m) {
    if (fflush(stdout) == 0 || m->stdout_failed) return;
    m->stdout_failed = 1;
    pst_log(PST_LOG_WARN,
            "cannot write to standard output (%s); training continues without progress output",
            strerror(errno));
}

static void show(pst_metrics *m, const pst_metrics_step *s, double tokens_per_s) {
    const pst_config *c = m->p->config;
    uint64_t steps = (uint64_t)c->train.steps;
    char text[200], loss[40] = "", clock[32];
    int every = s->step == 1 || s->step == steps || s->step % (uint64_t)c->train.log_every == 0;
    if (m->quiet || (!m->terminal && !every)) return;
    m->progress.step = s->step;
    m->progress.elapsed_s = now_s() - m->started_s;
    if (!m->timed) snprintf(loss, sizeof loss, "  loss %.4f", signless(s->loss));
    snprintf(text, sizeof text,
             "step %" PRIu64 "/%" PRIu64 "%s  %.0f %s/s  %.1f ms (predicted %.1f)  left %s",
             s->step, steps, loss, tokens_per_s, m->p->model_config.image ? "img" : "tok",
             s->step_s * 1e3, s->predicted_step_s * 1e3,
             clock_text(pst_metrics_time_left(&m->progress), clock));
    if (m->terminal) {
        printf("\r\033[K%s", text);
        m->line_open = 1;
    } else puts(text);
    flush_stdout(m);
}

/* --- events ----------------------------------------------------------------------------------- */

/* JSON has no NaN or infinity. */
static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* JSON is UTF-8; file names may be any bytes. */
static json_t *text(const char *bytes) {
    char *copy = strdup(bytes);
    if (copy) pst_utf8_clean(copy);
    json_t *string = copy ? json_string(copy) : NULL;
    free(copy);
    return string;
}

static json_t *peaks(const pst_metrics *m, const pst_report *report) {
    json_t *list = json_array();
    for (uint32_t r = 0; r < m->p->options.n_rank; r++)
        json_array_append_new(list, json_integer((json_int_t)(report ? report[r].peak_bytes
                                                                     : m->p->memory[r]->total)));
    return list;
}

static json_t *residents(const pst_metrics *m, const pst_report *report, int most) {
    json_t *list = json_array();
    for (uint32_t r = 0; r < m->p->options.n_rank; r++)
        json_array_append_new(list, json_integer((json_int_t)(most ? report[r].peak_resident_bytes
                                                                   : report[r].resident_bytes)));
    return list;
}

/* Seconds by kind of work over all ranks. Also keeps sums for the end; the first step touches
 * memory for the first time, so it counts only until there is a second one. */
static void add_work(pst_metrics *m, const pst_report *report, double step_s, json_t *line) {
    json_t *all = json_object();
    if (++m->work_steps == 2) {
        m->work = (pst_work){0};
        m->work_wall_ns = 0;
    }
    for (uint32_t i = 0; i < pst_work_count(); i++) {
        uint64_t ns = 0;
        for (uint32_t r = 0; r < m->p->options.n_rank; r++) ns += report[r].work.ns[i];
        m->work.ns[i] += ns;
        if (ns) json_object_set_new(all, pst_work_name(i), json_real((double)ns * 1e-9));
    }
    m->work_wall_ns += (uint64_t)(step_s * 1e9) * m->p->options.n_rank;
    json_object_set_new(line, "work_s", all);
}

void pst_metrics_work_text(const pst_metrics *m, char *text, size_t bytes) {
    pst_work_text(&m->work, m->work_wall_ns, text, bytes);
}

static void add_bits(json_t *to, double bits_per_byte) {
    if (!isnan(bits_per_byte)) json_object_set_new(to, "bits_per_byte", json_real(bits_per_byte));
}

static void add_parts(json_t *to, double loss, double next_sentence, double accuracy) {
    pst_evaluate_part part[PST_EVALUATE_PARTS];
    const uint32_t n = pst_evaluate_parts(loss, next_sentence, accuracy, part);
    for (uint32_t i = 0; i < n; i++) json_object_set_new(to, part[i].key, number(part[i].value));
}

void pst_metrics_step_done(pst_metrics *m, const pst_metrics_step *s, const pst_report *report) {
    const pst_prepared *p = m->p;
    const double share = (double)s->batch / (double)p->config->train.batch;
    double rate = share * (double)p->tokens / s->step_s;
    double mfu = m->peak_flops > 0 ? share * (double)p->flops / s->step_s / m->peak_flops : 0;
    json_t *line = json_pack(
        "{s:I,s:o,s:f,s:o,s:f,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:o}", "step",
        (json_int_t)s->step, "loss", number(s->loss), "lr", s->lr, "grad_norm",
        number(s->grad_norm), "mfu", mfu, "tokens", (json_int_t)s->tokens, "step_ms",
        s->step_s * 1e3, "predicted_step_ms", s->predicted_step_s * 1e3, "data_wait_ms",
        s->data_wait_s * 1e3, "tokens_per_s", rate, "bubble", s->bubble, "predicted_bubble",
        s->predicted_bubble, "peak_bytes", peaks(m, report), "predicted_peak_bytes", peaks(m, NULL),
        "resident_bytes", residents(m, report, 0), "most_resident_bytes", residents(m, report, 1));
    if (line && report->works) add_work(m, report, s->step_s, line);
    if (line) add_bits(line, s->bits_per_byte);
    if (line) add_parts(line, s->loss, s->next_sentence, s->accuracy);
    if (line && s->phase) json_object_set_new(line, "phase", json_string(s->phase));
    if (line && s->compression > 1)
        json_object_set_new(line, "compression", json_real(s->compression));
    if (line && !isnan(s->staleness)) {
        json_object_set_new(line, "staleness", json_real(s->staleness));
        json_object_set_new(line, "staleness_max", json_integer((json_int_t)s->most_stale));
    }
    if (line && s->post)
        json_object_set_new(line, "rolled_back_ranks", json_integer(s->rolled_back));
    if (line && s->scales) {
        json_object_set_new(line, "loss_scale", json_real(s->loss_scale));
        json_object_set_new(line, "skipped_steps", json_integer((json_int_t)s->skipped));
    }
    write_line(m, line);
    pst_tensorboard_step(&m->tensorboard, s, report, rate, mfu);
    show(m, s, rate);
}

/* ", 1.2 bits per byte, accuracy 91.20%", as far as they are known. */
static void print_more(const pst_evaluation *e) {
    const int both = !isnan(e->next_sentence);
    if (!isnan(e->bits_per_byte)) printf(", %.4f bits per byte", e->bits_per_byte);
    if (both)
        printf(", masked tokens %.4f, next sentence %.4f", signless(e->loss - e->next_sentence),
               signless(e->next_sentence));
    if (!isnan(e->accuracy)) printf("%saccuracy %.2f%%", both ? " with " : ", ", 100 * e->accuracy);
}

/* What a loss is the mean over. */
static const char *unit_of(const pst_metrics *m) {
    if (m->p->model_config.bert.labels) return "text";
    return m->p->model_config.image ? "image" : "token";
}

/* "loss 2.3 nats per token over 40 tokens, 1.1 bits per byte; wiki 2.5, code 1.9" */
static void print_validation(const pst_metrics *m, uint64_t step, const pst_evaluation *split,
                             const pst_evaluate_sets *sets) {
    const char *what = unit_of(m), *before = split->tokens ? ";" : "";
    printf("validation after step %" PRIu64 ":", step);
    if (split->tokens)
        printf(" loss %.4f nats per %s over %" PRIu64 " %s%s", signless(split->loss), what,
               split->tokens, what, pst_plural(split->tokens));
    if (split->tokens) print_more(split);
    for (uint32_t i = 0; i < sets->n; i++) {
        const pst_evaluation *e = &sets->set[i].last;
        if (!e->tokens) continue;
        printf("%s %s %.4f", before, sets->set[i].name, signless(e->loss));
        if (!isnan(e->accuracy)) printf(" (%.2f%%)", 100 * e->accuracy);
        before = ",";
    }
    if (!split->tokens) printf(" nats per %s", what);
    putchar('\n');
}

/* {"loss": 2.5, "tokens": 32768}, and what else is known */
static json_t *loss_of(const pst_evaluation *e) {
    json_t *one = json_pack("{s:o,s:I}", "loss", number(e->loss), "tokens", (json_int_t)e->tokens);
    if (one) add_bits(one, e->bits_per_byte);
    if (one) add_parts(one, e->loss, e->next_sentence, e->accuracy);
    return one;
}

/* {"wiki": {"loss": 2.5, "tokens": 32768}, ...} */
static json_t *losses(const pst_evaluate_sets *sets) {
    json_t *all = json_object();
    for (uint32_t i = 0; i < sets->n; i++)
        if (sets->set[i].last.tokens)
            json_object_set_new(all, sets->set[i].name, loss_of(&sets->set[i].last));
    return all;
}

static void validation_line(pst_metrics *m, uint64_t step, const pst_evaluation *split,
                            json_t *of_sets, double seconds) {
    json_t *line =
        json_pack("{s:s,s:I,s:o,s:I,s:f}", "event", "validation", "step", (json_int_t)step, "loss",
                  number(split->loss), "tokens", (json_int_t)split->tokens, "seconds", seconds);
    if (line) add_bits(line, split->bits_per_byte);
    if (line) add_parts(line, split->loss, split->next_sentence, split->accuracy);
    if (json_object_size(of_sets)) json_object_set_new(line, "sets", of_sets);
    else json_decref(of_sets);
    write_line(m, line);
}

void pst_metrics_validation(pst_metrics *m, uint64_t step, const pst_evaluation *split,
                            const pst_evaluate_sets *sets, double seconds) {
    json_t *of_sets = losses(sets);
    if (!split->tokens && !json_object_size(of_sets)) {
        json_decref(of_sets);
        return;
    }
    m->progress.evaluations++;
    m->progress.evaluated_s += seconds;
    validation_line(m, step, split, of_sets, seconds);
    pst_tensorboard_validation(&m->tensorboard, "", step, split);
    for (uint32_t i = 0; i < sets->n; i++)
        pst_tensorboard_validation(&m->tensorboard, sets->set[i].name, step, &sets->set[i].last);
    pst_metrics_newline(m);
    if (!m->quiet) print_validation(m, step, split, sets);
    flush_stdout(m);
}

void pst_metrics_spiked(pst_metrics *m, const pst_metrics_spike *s) {
    write_line(m, json_pack("{s:s,s:I,s:o,s:o,s:o,s:o,s:s}", "event", "spike", "step",
                            (json_int_t)s->step, "loss", number(s->loss), "grad_norm",
                            number(s->norm), "loss_limit", number(s->loss_limit), "grad_norm_limit",
                            number(s->norm_limit), "action", s->action));
}

void pst_metrics_recovered(pst_metrics *m, const pst_metrics_recovery *r) {
    json_t *lost = json_array();
    for (uint32_t i = 0; i < r->n_lost; i++) json_array_append_new(lost, json_integer(r->lost[i]));
    json_t *hosts = r->n_host ? json_array() : NULL;
    for (uint32_t i = 0; i < r->n_host; i++) json_array_append_new(hosts, json_string(r->host[i]));
    json_t *by = json_pack("{s:f,s:f,s:f,s:f}", "prepare", r->prepared_s, "set_up", r->set_up_s,
                           "state", r->state_s, "step", r->step_s);
    json_t *repeated = r->repeated ? json_integer((json_int_t)r->repeated) : NULL;
    json_t *bytes = r->moved_bytes ? json_integer((json_int_t)r->moved_bytes) : NULL;
    write_line(m,
               json_pack("{s:s,s:I,s:o,s:o*,s:i,s:f,s:f,s:o*,s:o*,s:o}", "event", "recovery",
                         "step", (json_int_t)r->step, "lost", lost, "lost_hosts", hosts, "ranks",
                         (int)r->ranks, "seconds", r->seconds, "predicted_seconds", r->predicted_s,
                         "repeated_steps", repeated, "moved_bytes", bytes, "seconds_by", by));
    pst_metrics_newline(m);
    if (!m->quiet) printf("recovered in %.2f s (predicted %.2f)\n", r->seconds, r->predicted_s);
    flush_stdout(m);
}

void pst_metrics_resized(pst_metrics *m, const pst_metrics_resize *r) {
    write_line(m, json_pack("{s:s,s:I,s:i,s:i,s:f,s:f}", "event", "resize", "step",
                            (json_int_t)r->step, "from", (int)r->from, "ranks", (int)r->ranks,
                            "seconds", r->seconds, "predicted_seconds", r->predicted_s));
    pst_metrics_newline(m);
    if (!m->quiet)
        printf("%u -> %u rank%s at step %" PRIu64 "; the change took %.2f s (predicted %.2f)\n",
               r->from, r->ranks, pst_plural(r->ranks), r->step, r->seconds, r->predicted_s);
    flush_stdout(m);
}

pst_status pst_metrics_rewind(pst_metrics *m, uint64_t step) {
    FILE *file;
    PST_TRY(open_file(m->path, (kept){.step = step, .spikes = 1}, &file));
    fclose(m->file);
    m->file = file;
    return PST_OK;
}

void pst_metrics_non_finite(pst_metrics *m, uint64_t step, uint64_t skipped, const pst_culprit *c) {
    const pst_graph *g = m->p->graph;
    char tensor[PST_NAME_MAX + 40], index[96];
    json_t *line = json_pack("{s:s,s:I,s:I}", "event", "non_finite", "step", (json_int_t)step,
                             "skipped", (json_int_t)skipped);
    if (c && line) {
        const char *value = c->value > 0 ? "inf" : "-inf";
        if (isnan(c->value)) value = "nan";
        pst_replay_tensor(g, c, tensor);
        pst_replay_index(g, c, index);
        json_object_set_new(line, "operator",
                            json_string(c->node == PST_NONE ? "" : g->node[c->node].name));
        json_object_set_new(line, "tensor", json_string(tensor));
        json_object_set_new(line, "index", json_loads(index, 0, NULL));
        json_object_set_new(line, "value", json_string(value));
        json_object_set_new(line, "pass", json_string(pst_replay_pass(c)));
        json_object_set_new(line, "micro_batch", json_integer(c->micro));
        json_object_set_new(line, "rank", json_integer(c->rank));
        json_object_set_new(line, "weight",
                            c->bad_param == PST_NONE ? json_null()
                                                     : json_string(g->param[c->bad_param].name));
    }
    write_line(m, line);
    pst_metrics_newline(m);
}

void pst_metrics_checkpoint(pst_metrics *m, const pst_metrics_saved *saved, const char *path,
                            const char *why) {
    double rate = saved->seconds > 0 ? (double)saved->bytes / saved->seconds * 1e-6 : 0;
    if (!why) {
        write_line(m, json_pack("{s:s,s:I,s:o,s:I,s:f,s:f,s:f}", "event", "checkpoint", "step",
                                (json_int_t)saved->step, "path", text(path), "bytes",
                                (json_int_t)saved->bytes, "seconds", saved->seconds, "mb_per_s",
                                rate, "held_s", saved->held_s));
        return;
    }
    pst_metrics_newline(m);
    pst_log(PST_LOG_ERROR,
            "cannot write the checkpoint of step %" PRIu64
            ": %s; training continues and earlier checkpoints stay",
            saved->step, why);
    write_line(m, json_pack("{s:s,s:I,s:o}", "event", "checkpoint_failed", "step",
                            (json_int_t)saved->step, "why", text(why)));
}

/* What is neither training nor a known cause: evaluations, checkpoints, data. */
static json_t *lost_times(const pst_metrics_times *t) {
    const double known = t->trained + t->start + t->recovery + t->resize;
    return json_pack("{s:f,s:f,s:f,s:f}", "start", t->start, "recovery", t->recovery, "resize",
                     t->resize, "other", t->total > known ? t->total - known : 0);
}

void pst_metrics_end(pst_metrics *m, uint64_t steps, const uint64_t *weights_xxh64, const char *why,
                     const pst_metrics_times *t) {
    char hash[20];
    if (weights_xxh64) snprintf(hash, sizeof hash, "%016" PRIx64, *weights_xxh64);
    write_line(m, json_pack("{s:s,s:I,s:s?,s:s,s:f,s:f,s:f,s:o,s:f}", "event", "end", "steps",
                            (json_int_t)steps, "weights_xxh64", weights_xxh64 ? hash : NULL, "why",
                            why, "seconds", t->total, "training_seconds", t->trained,
                            "effective_ratio", t->total > 0 ? t->trained / t->total : 0,
                            "lost_seconds", lost_times(t), "time", pst_metrics_time()));
    pst_metrics_newline(m);
}
