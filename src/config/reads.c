/* Which keys are read only where another key chooses it: model.heads by some kinds of models,
 * train.beta1 by one optimizer. One table for the check of a run file, its resolved copy, --help
 * and the manual. */
#include "config/number.h"
#include "config/rows.h"
#include <string.h>

/* REFUSE: to give it elsewhere is an error; WARN: a run says it, for such keys are often left in
 * when trying choices. */
typedef enum { REFUSE, WARN } consequence;

static const struct {
    const char *section, *key, *choice, *readers; /* readers: values of the choice */
    consequence elsewhere;
    const char *other; /* the choice's section where it is another one; then the key has a line
                          before this one, and both have to choose it */
} reads[] = {
    {"model", "preset", "kind", "gpt|bert|mlp|resnet", REFUSE, NULL},
    {"model", "weights", "kind", "gpt", REFUSE, NULL},
    {"model", "activation", "kind", "gpt|mlp", REFUSE, NULL},
    {"model", "layers", "kind", "gpt|bert|mlp|resnet", REFUSE, NULL},
    {"model", "heads", "kind", "gpt|bert", REFUSE, NULL},
    {"model", "channels", "kind", "gpt|bert|mlp|resnet", REFUSE, NULL},
    {"model", "context", "kind", "gpt|bert|mlp", REFUSE, NULL},
    {"model", "vocabulary", "kind", "gpt|bert|mlp|resnet", REFUSE, NULL},
    {"model", "image", "kind", "resnet", REFUSE, NULL},
    {"model", "dropout", "kind", "gpt|bert", REFUSE, NULL},
    {"data", "tokenizer", "kind", "text|lines", REFUSE, NULL},
    {"data", "validation", "kind", "text|lines|mnist|cifar10", REFUSE, NULL},
    {"train", "lr_min", "decay", "cosine|linear", WARN, NULL},
    {"train", "beta1", "optimizer", "adamw", WARN, NULL},
    {"train", "beta2", "optimizer", "adamw", WARN, NULL},
    {"train", "eps", "optimizer", "adamw", WARN, NULL},
    {"train", "momentum", "optimizer", "sgd", WARN, NULL},
    {"train", "residual", "precision", "bf16|fp16|fp8", WARN, NULL},
    {"train", "residual", "kind", "gpt|bert", WARN, "model"},
    {"train", "loss_scale_start", "precision", "fp16", WARN, NULL},
    {"train", "loss_scale_interval", "precision", "fp16", WARN, NULL},
    {"train", "loss_scale_backoff", "precision", "fp16", WARN, NULL},
    {"parallel", "schedule_file", "schedule", "custom", WARN, NULL},
};
enum { N_READ = sizeof reads / sizeof *reads };

/* -1: the key is always read. */
static int find(const pst_row *row) {
    for (int i = 0; i < N_READ; i++)
        if (!strcmp(reads[i].section, row->section) && !strcmp(reads[i].key, row->key)) return i;
    return -1;
}

static const char *section_of(int i) { return reads[i].other ? reads[i].other : reads[i].section; }

/* What the configuration chooses there. */
static const char *choice_of(int i, const pst_config *config) {
    const pst_row *row = pst_row_find(section_of(i), reads[i].choice);
    return *(char *const *)((const char *)config + row->offset);
}

static int is_reader(int i, const char *choice) {
    size_t n = strlen(choice);
    for (const char *at = reads[i].readers; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, choice, n) && (!at[n] || at[n] == '|')) return 1;
    }
    return 0;
}

int pst_row_is_read(const pst_row *row, const pst_config *config) {
    int i = find(row);
    return i < 0 || reads[i].elsewhere == WARN || is_reader(i, choice_of(i, config));
}

const char *pst_row_readers(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    size_t used = 0;
    *out = 0;
    for (int i = find(row); i >= 0; i = i + 1 < N_READ && reads[i + 1].other ? i + 1 : -1) {
        used += (size_t)snprintf(out + used, PST_ROW_TEXT_BYTES - used, "%s%s.%s ",
                                 used ? " with " : "", section_of(i), reads[i].choice);
        for (const char *at = reads[i].readers; *at && used + 3 < PST_ROW_TEXT_BYTES; at++) {
            out[used++] = *at == '|' ? ',' : *at;
            if (*at == '|') out[used++] = ' ';
        }
        out[used] = 0;
    }
    return out;
}

/* --- values ----------------------------------------------------------------------------------- */

static double number_of(const pst_row *row, const pst_config *config) {
    const char *at = (const char *)config + row->offset;
    return row->type == PST_ROW_WHOLE ? (double)*(const int64_t *)at : *(const double *)at;
}

/* 0 and an empty text ask for nothing. */
static int says_nothing(const pst_row *row, const pst_config *config) {
    if (row->type == PST_ROW_TEXT) return !**(char *const *)((const char *)config + row->offset);
    return !pst_row_is_list(row) && number_of(row, config) == 0;
}

/* As it is in the copies of runs that have never asked for it. */
static int is_default(const pst_row *row, const pst_config *config) {
    double fallback;
    if (row->type == PST_ROW_TEXT)
        return !strcmp(*(char *const *)((const char *)config + row->offset), row->fallback);
    return pst_number_real(row->fallback, &fallback) && fallback == number_of(row, config);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The copies of runs up to version 0.1.0 have every key of the model that there was, read or
 * not. */
static int is_early_copy(const pst_reading *reading) {
    static const char *const keys[] = {"preset",   "weights", "activation", "layers", "heads",
                                       "channels", "context", "vocabulary", "dropout"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const pst_row_origin *origin = &reading->origin[pst_row_find("model", keys[i]) - pst_rows];
        if (!origin->override && !origin->line) return 0;
    }
    return 1;
}

static pst_status refuse(const pst_row *row, const pst_config *config) {
    char list[PST_ROW_TEXT_BYTES] = "";
    int i = find(row);
    for (size_t k = 0; k < pst_n_row; k++) {
        size_t used = strlen(list);
        int beside = !strcmp(pst_rows[k].section, row->section) &&
                     strcmp(pst_rows[k].key, reads[i].choice) != 0;
        if (beside && pst_row_is_read(&pst_rows[k], config))
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", pst_rows[k].key);
    }
    return pst_fail(PST_EINPUT, "%s.%s is not read by %s.%s %s, which reads %s", row->section,
                    row->key, row->section, reads[i].choice, choice_of(i, config),
                    *list ? list : "no other key");
}

pst_status pst_reading_check_read(pst_reading *reading, const pst_row_origin **at) {
    int early = is_early_copy(reading);
    for (size_t k = 0; k < pst_n_row; k++) {
        const pst_row *row = &pst_rows[k];
        pst_row_origin *origin = &reading->origin[k];
        if ((!origin->override && !origin->line) || pst_row_is_read(row, reading->config)) continue;
        if (early && !origin->override) {
            PST_TRY(pst_row_set(row, reading->config, row->fallback));
            *origin = (pst_row_origin){0};
        } else if (!says_nothing(row, reading->config)) {
            *at = origin;
            return refuse(row, reading->config);
        }
    }
    return PST_OK;
}

int pst_config_unread(const pst_config *config, size_t *next, char *text, size_t bytes) {
    while (*next < N_READ) {
        int i = (int)(*next)++;
        const pst_row *row = pst_row_find(reads[i].section, reads[i].key);
        const char *choice = choice_of(i, config);
        if (reads[i].elsewhere != WARN || !config->given[row - pst_rows] || is_reader(i, choice))
            continue;
        if (is_default(row, config)) continue;
        while (*next < N_READ && reads[*next].other) ++*next; /* one reason will do */
        snprintf(text, bytes, "%s.%s is not read: %s.%s is %s", row->section, row->key,
                 section_of(i), reads[i].choice, choice);
        return 1;
    }
    return 0;
}
