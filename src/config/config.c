/* Reads a run configuration: defaults from the rows, the file, the overrides, then keys that
 * depend on others, and last the checks between keys. */
#include "config/config.h"
#include "config/rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_config_close(pst_config *config) {
    if (!config) return;
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        if (pst_row_is_list(row)) pst_row_clear(row, config);
        if (row->type == PST_ROW_TEXT) free(*(char **)((char *)config + row->offset));
    }
    for (size_t i = 0; i < PST_CONFIG_KEYS; i++) free(config->place[i]);
    free(config->source);
    free(config);
}

static pst_status set_defaults(pst_config *config, const char *file) {
    if (!(config->source = strdup(file)))
        return pst_fail(PST_ENOMEM, "no memory for the configuration");
    for (size_t i = 0; i < pst_n_row; i++) {
        if (!pst_rows[i].fallback) continue;
        pst_status status = pst_row_set(&pst_rows[i], config, pst_rows[i].fallback);
        if (status != PST_OK)
            return pst_fail_in(status == PST_EINPUT ? PST_EINTERNAL : status, "default of %s.%s",
                               pst_rows[i].section, pst_rows[i].key);
    }
    return PST_OK;
}

static pst_status apply_override(pst_reading *reading, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return pst_fail(PST_EINPUT, "expected section.key=value");
    char name[PST_ROW_NAME_BYTES];
    const pst_row *row = NULL;
    size_t n = (size_t)(equals - text);
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
    PST_TRY(pst_row_find_override(name, &row));
    char full[PST_ROW_TEXT_BYTES];
    size_t path = strlen(pst_row_name(row, full));
    const char *item = row->type == PST_ROW_NAMED && strlen(name) > path ? name + path + 1 : NULL;
    PST_TRY(pst_row_override(row, reading->config, item, equals + 1));
    reading->origin[row - pst_rows] =
        (pst_row_origin){.override = text, .order = ++reading->n_read};
    return PST_OK;
}

static pst_row_origin *origin_of(pst_reading *reading, const char *section, const char *key) {
    return &reading->origin[pst_row_find(section, key) - pst_rows];
}

static int is_given(const pst_row_origin *origin) { return origin->override || origin->line; }

/* Puts the place where a value was given in front of the error message. */
static pst_status at_origin(const pst_reading *reading, const pst_row_origin *origin,
                            pst_status status) {
    if (origin->override) return pst_fail_in(status, "override '%.200s'", origin->override);
    if (origin->line)
        return pst_fail_in(status, "%s:%zu:%zu", origin->file, origin->line, origin->column);
    return pst_fail_in(status, "%s", reading->file);
}

static pst_status check_used(pst_reading *reading) {
    const pst_row_origin *at = NULL;
    pst_status status = pst_reading_check_used(reading, &at);
    return at ? at_origin(reading, at, status) : status;
}

static pst_status check_required(const pst_reading *reading) {
    for (size_t i = 0; i < pst_n_row; i++) {
        char name[PST_ROW_TEXT_BYTES], expects[PST_ROW_TEXT_BYTES];
        if (!(pst_rows[i].flags & PST_ROW_REQUIRED) || is_given(&reading->origin[i])) continue;
        return pst_fail(PST_EINPUT, "%s: %s is missing; expected %s", reading->file,
                        pst_row_name(&pst_rows[i], name), pst_row_expects(&pst_rows[i], expects));
    }
    return PST_OK;
}

/* The name becomes a folder below runs/. */
static int is_folder_name(const char *name) {
    if (!*name || *name == '.' || strlen(name) > 200) return 0;
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == '/' || *name == 127) return 0;
    return 1;
}

static pst_status resolve_name(pst_reading *reading) {
    pst_config *c = reading->config;
    pst_row_origin *origin = origin_of(reading, "", "name");
    if (!*c->name) {
        const char *slash = strrchr(reading->file, '/');
        char stem[256];
        snprintf(stem, sizeof stem, "%s", slash ? slash + 1 : reading->file);
        char *dot = strrchr(stem, '.');
        if (dot && dot > stem) *dot = 0;
        pst_status status =
            pst_row_set(pst_row_find("", "name"), c, is_folder_name(stem) ? stem : "run");
        return status == PST_EINPUT ? pst_row_set(pst_row_find("", "name"), c, "run")
                                    : status; /* not UTF-8 */
    }
    if (is_folder_name(c->name)) return PST_OK;
    pst_fail(PST_EINPUT,
             "name: expected a folder name (without '/', not starting with '.'), found '%.60s'",
             c->name);
    return at_origin(reading, origin, PST_EINPUT);
}

static void keep_given(pst_reading *reading) {
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        const char *at = (const char *)reading->config;
        int zero = row->type == PST_ROW_WHOLE && !strcmp(row->fallback, "0") &&
                   !*(const int64_t *)(at + row->offset);
        uint32_t items = pst_row_is_list(row) ? *(const uint32_t *)(at + row->count) : 1;
        int none = row->type == PST_ROW_WHOLES && items == 1 &&
                   !strcmp(**(char **const *)(at + row->offset), "0");
        int open = zero || none || !items;
        uint8_t by = 0;
        if (reading->origin[i].override) by = PST_GIVEN_BY_OVERRIDE;
        else if (reading->origin[i].line) by = PST_GIVEN_BY_FILE;
        reading->config->given[i] = open ? 0 : by;
    }
}

/* Steps from a share, which is stored as a negative number (PST_ROW_STEPS), rounded to an
 * integer. */
static int64_t whole_steps(const pst_config *c, double asked) {
    return (int64_t)(asked < 0 ? floor(-asked * (double)c->train.steps + 0.5) : asked);
}

/* At most all steps; src/run/setup.c warns if it was cut. */
static void resolve_warmup(pst_config *c, int given) {
    int64_t asked = whole_steps(c, c->train.warmup_given);
    if (asked > c->train.steps && given) c->train.warmup_cut = asked;
    c->train.warmup = asked > c->train.steps ? c->train.steps : asked;
}

static void resolve_decay(pst_config *c) {
    int64_t after = c->train.steps - c->train.warmup;
    int64_t asked = whole_steps(c, c->train.decay_steps_given);
    c->train.decay_steps = asked > after ? after : asked;
}

/* With zero 1 weights come back at the start of a step, which delayed updates cannot hide. */
static void resolve_zero(pst_config *c) {
    const int delayed = !strcmp(c->parallel.update, "delayed");
    if (delayed && !pst_config_given(c, "parallel", "zero")) c->parallel.zero = 0;
}

void pst_config_set_steps(pst_config *c, int64_t steps) {
    c->train.steps = steps;
    c->train.warmup_cut = 0;
    resolve_warmup(c, pst_config_given(c, "train", "warmup"));
    resolve_decay(c);
}

pst_status pst_config_set_labels(pst_config *c, char *const *label, uint32_t n) {
    const pst_row *row = pst_row_find("model", "labels");
    pst_row_clear(row, c);
    for (uint32_t i = 0; i < n; i++) PST_TRY(pst_row_add(row, c, label[i]));
    return PST_OK;
}

/* The keys that set the length of a run: the last one counts, but a file gives only one, and so do
 * the arguments. */
static pst_status resolve_length(pst_reading *reading) {
    pst_config *c = reading->config;
    static const char *const key[] = {"steps", "tokens", "epochs"};
    const int set[] = {1, c->train.tokens != 0, c->train.epochs > 0};
    const pst_row_origin *last = NULL;
    int chosen = -1;
    for (int i = 0; i < 3; i++) {
        pst_row_origin *at = origin_of(reading, "train", key[i]);
        if (!set[i] || !is_given(at)) continue;
        if (last && at->file == last->file) {
            pst_fail(PST_EINPUT, "train.%s and train.%s both set the length of the run; give one",
                     key[chosen], key[i]);
            return at_origin(reading, at, PST_EINPUT);
        }
        if (last && at->order < last->order) continue;
        last = at;
        chosen = i;
    }
    if (chosen != 1) c->train.tokens = 0;
    if (chosen != 2) c->train.epochs = 0;
    return PST_OK;
}

/* Defaults that depend on other keys. */
static void resolve_train(pst_reading *reading) {
    pst_config *c = reading->config;
    pst_config_set_steps(c, c->train.steps);
    if (!strcmp(c->train.optimizer, "muon") && !pst_config_given(c, "train", "momentum"))
        c->train.momentum = 0.95; /* as published */
    if (c->train.micro_batch) return;
    const int64_t least = c->train.batch_warmup.from ? c->train.batch_warmup.from : c->train.batch;
    for (c->train.micro_batch = 4;
         c->train.batch % c->train.micro_batch || least % c->train.micro_batch;)
        c->train.micro_batch--;
}

/* Where to report a contradiction between two keys of a section: at the first one if it was
 * given, else at the second. */
static pst_row_origin *origin_to_report(pst_reading *reading, const char *section, const char *key,
                                        const char *other) {
    pst_row_origin *first = origin_of(reading, section, key),
                   *second = origin_of(reading, section, other);
    return is_given(first) ? first : second;
}

/* "4, 8 or 16": the values that train.batch_warmup.from may have; the largest ones. */
static void list_first_batches(const pst_config *c, char *out, size_t size) {
    enum { MOST = 8 };
    int64_t value[MOST], n = 0;
    for (int64_t d = c->train.batch / 2; d > 0 && n < MOST; d--)
        if (c->train.batch % d == 0) value[n++] = d;
    *out = 0;
    for (int64_t i = n; i > 0; i--) {
        const char *after = i > 2 ? ", " : " or ";
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%lld%s", (long long)value[i - 1], i > 1 ? after : "");
    }
    if (!n) snprintf(out, size, "0 (off): no smaller number divides it");
}

static pst_status check_batch_warmup(pst_reading *reading) {
    const pst_config *c = reading->config;
    const int64_t from = c->train.batch_warmup.from, batch = c->train.batch;
    char values[160];
    if (!from && !c->train.batch_warmup.tokens) return PST_OK;
    if (!from || !c->train.batch_warmup.tokens) {
        pst_fail(PST_EINPUT, "train.batch_warmup needs both from and tokens, such as {from: 4, "
                             "tokens: 1000000}");
        return at_origin(reading,
                         origin_of(reading, "train.batch_warmup", from ? "from" : "tokens"),
                         PST_EINPUT);
    }
    if (from < batch && batch % from == 0) return PST_OK;
    list_first_batches(c, values, sizeof values);
    pst_fail(PST_EINPUT, "train.batch_warmup.from is %lld; with train.batch %lld expected %s",
             (long long)from, (long long)batch, values);
    return at_origin(reading, origin_of(reading, "train.batch_warmup", "from"), PST_EINPUT);
}

static pst_status check_train(pst_reading *reading) {
    const pst_config *c = reading->config;
    long long batch = c->train.batch, micro = c->train.micro_batch;
    if (micro > batch) {
        pst_fail(PST_EINPUT, "train.micro_batch (%lld) is larger than train.batch (%lld)", micro,
                 batch);
        return at_origin(reading, origin_to_report(reading, "train", "micro_batch", "batch"),
                         PST_EINPUT);
    }
    PST_TRY(check_batch_warmup(reading));
    if (c->train.lr_min > c->train.lr) {
        pst_fail(PST_EINPUT, "train.lr_min (%g) is above train.lr (%g)", c->train.lr_min,
                 c->train.lr);
        return at_origin(reading, origin_to_report(reading, "train", "lr_min", "lr"), PST_EINPUT);
    }
    if (!strcmp(c->train.nesterov, "true") && !strcmp(c->train.optimizer, "sgd") &&
        !(c->train.momentum > 0)) {
        pst_fail(PST_EINPUT, "train.nesterov needs train.momentum above 0");
        return at_origin(reading, origin_to_report(reading, "train", "nesterov", "momentum"),
                         PST_EINPUT);
    }
    if (c->stop.patience && !c->eval.every) {
        pst_fail(PST_EINPUT, "stop.patience counts evaluations, but eval.every is 0");
        return at_origin(reading, origin_of(reading, "stop", "patience"), PST_EINPUT);
    }
    if (c->stop.patience && !strcmp(c->checkpoint.best, "validation") && c->data.validation == 0 &&
        pst_row_is_used(pst_row_find("data", "validation"), c)) {
        pst_fail(PST_EINPUT, "stop.patience counts evaluations, but data.validation is 0");
        return at_origin(reading, origin_of(reading, "stop", "patience"), PST_EINPUT);
    }
    return PST_OK;
}

/* For pst_config_at. */
static pst_status keep_places(pst_reading *reading) {
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row_origin *at = &reading->origin[i];
        char **place = &reading->config->place[i];
        if (!is_given(at)) continue;
        int n = at->override ? asprintf(place, "override '%.200s'", at->override)
                             : asprintf(place, "%s:%zu:%zu", at->file, at->line, at->column);
        if (n >= 0) continue;
        *place = NULL;
        return pst_fail(PST_ENOMEM, "no memory for the configuration");
    }
    return PST_OK;
}

static pst_status read_all(pst_reading *reading, const char *text, size_t bytes,
                           const char *const *override, size_t n_override) {
    PST_TRY(set_defaults(reading->config, reading->file));
    const pst_run_file file = {.name = reading->file};
    PST_TRY(pst_document_read(reading, &file, text, bytes));
    for (size_t i = 0; i < n_override; i++) {
        pst_status status = apply_override(reading, override[i]);
        if (status != PST_OK) return pst_fail_in(status, "override '%.200s'", override[i]);
    }
    PST_TRY(check_required(reading));
    PST_TRY(check_used(reading));
    PST_TRY(resolve_name(reading));
    pst_row_resolve(reading->config);
    PST_TRY(resolve_length(reading));
    keep_given(reading);
    resolve_zero(reading->config);
    resolve_train(reading);
    PST_TRY(keep_places(reading));
    return check_train(reading);
}

/* reading: of this file, without a configuration yet. */
static pst_status read_bytes(pst_reading *reading, const char *text, size_t bytes,
                             const char *const *override, size_t n_override, pst_config **config) {
    reading->config = calloc(1, sizeof *reading->config);
    if (!reading->config) return pst_no_memory("for the configuration");
    pst_status status = read_all(reading, text, bytes, override, n_override);
    pst_include_close(reading);
    if (status == PST_OK) *config = reading->config;
    else pst_config_close(reading->config);
    return status;
}

pst_status pst_config_parse(const char *text, const char *file, const char *const *override,
                            size_t n_override, pst_config **config) {
    size_t bytes = strlen(text);
    pst_reading reading = {.file = file};
    PST_TRY(pst_run_file_fits(file, bytes));
    return read_bytes(&reading, text, bytes, override, n_override, config);
}

pst_status pst_config_open(const char *name, const char *const *override, size_t n_override,
                           pst_config **config) {
    static const char nothing[] = "model: {kind: custom}\ndata: {kind: custom, paths: [none]}\n";
    const char *missing = !override && n_override ? "override" : NULL;
    if (!config) missing = "config";
    if (!name) missing = "name";
    if (missing) return pst_fail(PST_EINPUT, "pst_config_open: %s is NULL", missing);
    for (size_t i = 0; i < n_override; i++)
        if (!override[i]) return pst_fail(PST_EINPUT, "pst_config_open: override %zu is NULL", i);
    const char **all = calloc(n_override + 1, sizeof *all);
    char *named = NULL;
    pst_status status = all && asprintf(&named, "name=%s", name) > 0 ? PST_OK : PST_ENOMEM;
    if (status == PST_OK) {
        all[0] = named;
        for (size_t i = 0; i < n_override; i++) all[i + 1] = override[i];
        status = pst_config_parse(nothing, "configuration", all, n_override + 1, config);
    } else {
        pst_fail(PST_ENOMEM, "no memory for the configuration");
    }
    free(named);
    free(all);
    return status;
}

/* Copies the members that are not printed. */
static pst_status copy_origins(const pst_config *config, pst_config *made) {
    for (size_t i = 0; i < pst_n_row; i++) {
        char *place = config->place[i] ? strdup(config->place[i]) : NULL;
        if (config->place[i] && !place)
            return pst_fail(PST_ENOMEM, "no memory for the configuration");
        free(made->place[i]);
        made->place[i] = place;
    }
    made->train.warmup_cut = config->train.warmup_cut;
    memcpy(made->given, config->given, sizeof config->given);
    return PST_OK;
}

/* Copies by printing: what is printed reads back to the same values. */
pst_status pst_config_copy(const pst_config *config, pst_config **copy) {
    char *text = NULL;
    size_t bytes;
    pst_config *made = NULL;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    pst_status status = pst_config_print(config, f);
    if (fclose(f) != 0 && status == PST_OK)
        status = pst_fail(PST_ENOMEM, "no memory for the configuration");
    if (status == PST_OK) status = pst_config_parse(text, config->source, NULL, 0, &made);
    free(text);
    if (status == PST_OK) status = copy_origins(config, made);
    if (status == PST_OK) *copy = made;
    else pst_config_close(made);
    return status;
}

pst_status pst_config_load(const char *path, const char *const *override, size_t n_override,
                           pst_config **config) {
    char *text;
    size_t bytes;
    pst_reading reading = {.file = path, .from_disk = 1};
    PST_TRY(pst_run_file_text(path, &text, &bytes));
    pst_status status = read_bytes(&reading, text, bytes, override, n_override, config);
    free(text);
    return status;
}
