/* Keys that are used only with certain values of another key: model.heads by some kinds of
 * models, train.beta1 by one optimizer. One table for the check of a run file, its resolved
 * copy, --help and the manual. */
#include "config/number.h"
#include "config/rows.h"
#include <inttypes.h>
#include <string.h>

/* What happens if such a key is given with another value. REFUSE: an error; WARN: a warning when
 * the run starts, for such keys are often left in while options are tried. */
typedef enum { REFUSE, WARN } consequence;

#define NOT_ZERO "above 0"
#define ANY_CODEC "int8|int4|2bit|topk|powersgd|bf16"

static const struct {
    /* values: those of the key `choice` with which this key is used; of a whole number: NOT_ZERO.
     * Of several keys `choice`, one|two, one such value is enough; a key with dots is of another
     * section. */
    const char *section, *key, *choice, *values;
    consequence otherwise;
    const char *other; /* section of `choice` if it is another one */
} conditions[] = {
    /* all conditions of a key must hold; its rows follow each other */
    {"model", "preset", "kind", "gpt|llama|bert|mlp|resnet", REFUSE, NULL},
    {"model", "weights", "kind", "gpt|llama|bert", REFUSE, NULL},
    {"model", "activation", "kind", "gpt|mlp", REFUSE, NULL},
    {"model", "layers", "kind", "gpt|llama|bert|mlp|resnet", REFUSE, NULL},
    {"model", "heads", "kind", "gpt|llama|bert", REFUSE, NULL},
    {"model", "channels", "kind", "gpt|llama|bert|mlp|resnet", REFUSE, NULL},
    {"model", "context", "kind", "gpt|llama|bert|mlp", REFUSE, NULL},
    {"model", "vocabulary", "kind", "gpt|llama|bert|mlp|resnet", REFUSE, NULL},
    {"model", "kv_heads", "kind", "llama", REFUSE, NULL},
    {"model", "intermediate", "kind", "llama|bert", REFUSE, NULL},
    {"model", "window", "kind", "llama", REFUSE, NULL},
    {"model", "norm_eps", "kind", "llama|bert", REFUSE, NULL},
    {"model", "tied", "kind", "llama", REFUSE, NULL},
    {"model", "bias", "kind", "llama", REFUSE, NULL},
    {"model", "rope_theta", "kind", "llama", REFUSE, NULL},
    {"model", "rope_scaling", "kind", "llama", REFUSE, NULL},
    {"model", "rope_factor", "kind", "llama", REFUSE, NULL},
    {"model", "rope_factor", "rope_scaling", "linear|llama3|yarn", WARN, "model"},
    {"model", "rope_context", "kind", "llama", REFUSE, NULL},
    {"model", "rope_context", "rope_scaling", "llama3|yarn", WARN, "model"},
    {"model", "rope_low", "kind", "llama", REFUSE, NULL},
    {"model", "rope_low", "rope_scaling", "llama3|yarn", WARN, "model"},
    {"model", "rope_high", "kind", "llama", REFUSE, NULL},
    {"model", "rope_high", "rope_scaling", "llama3|yarn", WARN, "model"},
    {"model", "rope_attention", "kind", "llama", REFUSE, NULL},
    {"model", "rope_attention", "rope_scaling", "yarn", WARN, "model"},
    {"model", "image", "kind", "resnet", REFUSE, NULL},
    {"model", "token_types", "kind", "bert", REFUSE, NULL},
    {"model", "max_predictions", "kind", "bert", REFUSE, NULL},
    {"model", "max_predictions", "task", "pretraining", WARN, "model"},
    {"model", "next_sentence", "kind", "bert", REFUSE, NULL},
    {"model", "next_sentence", "task", "pretraining", WARN, "model"},
    {"model", "task", "kind", "bert", REFUSE, NULL},
    {"model", "labels", "kind", "bert", REFUSE, NULL},
    {"model", "labels", "task", "classification", WARN, "model"},
    {"model", "dropout", "kind", "gpt|bert", REFUSE, NULL},
    {"model", "attention_dropout", "kind", "gpt|bert", REFUSE, NULL},
    {"data", "tokenizer", "kind", "text|tokens|lines|labels|chat", REFUSE, NULL},
    {"data", "field", "kind", "text|lines|labels", REFUSE, NULL},
    {"data", "label", "kind", "labels", REFUSE, NULL},
    {"data", "on_error", "kind", "text|lines|labels|chat", REFUSE, NULL},
    {"data", "cache", "kind", "text|lines|chat", REFUSE, NULL},
    {"data", "template", "kind", "chat", REFUSE, NULL},
    {"data", "isolate", "kind", "text|tokens", REFUSE, NULL},
    {"data", "mask", "kind", "text|tokens|lines", REFUSE, NULL},
    {"data", "blend", "kind", "text|tokens|lines|chat", REFUSE, NULL},
    {"data", "validation", "kind", "text|tokens|lines|labels|chat|mnist|cifar10", REFUSE, NULL},
    {"train", "lr_min", "decay", "cosine|linear|wsd|inverse-sqrt", WARN, NULL},
    {"train", "decay_steps", "decay", "wsd", WARN, NULL},
    {"train", "beta1", "optimizer", "adamw|adam|lamb|muon", WARN, NULL},
    {"train", "beta2", "optimizer", "adamw|adam|lamb|muon", WARN, NULL},
    {"train", "eps", "optimizer", "adamw|adam|lamb|muon", WARN, NULL},
    {"train", "momentum", "optimizer", "sgd|muon", WARN, NULL},
    {"train", "nesterov", "optimizer", "sgd", WARN, NULL},
    {"train", "spike_factor", "spike", "warn|skip|rewind", WARN, NULL},
    {"train", "residual", "precision", "bf16|fp16|fp8", WARN, NULL},
    {"train", "residual", "kind", "gpt|llama|bert", WARN, "model"},
    {"train", "loss_scale_start", "precision", "fp16", WARN, NULL},
    {"train", "loss_scale_interval", "precision", "fp16", WARN, NULL},
    {"train", "loss_scale_backoff", "precision", "fp16", WARN, NULL},
    {"parallel", "schedule_file", "schedule", "custom", WARN, NULL},
    {"parallel.compress", "block", "up|down|stages|parallel.local.compress", "int8|int4|2bit|topk",
     WARN, NULL},
    {"parallel.compress", "threshold", "up", "2bit", WARN, NULL},
    {"parallel.compress", "rate", "up", "topk", WARN, NULL},
    {"parallel.compress", "warmup", "up", "topk", WARN, NULL},
    {"parallel.compress", "moments", "up", "topk", WARN, NULL},
    {"parallel.compress", "rank", "up", "powersgd", WARN, NULL},
    {"parallel.compress", "min_rate", "up", "powersgd", WARN, NULL},
    {"parallel.compress", "warm_start", "up", "powersgd", WARN, NULL},
    {"parallel.compress", "iterations", "up", "powersgd", WARN, NULL},
    {"parallel.compress", "after", "up|down|stages", ANY_CODEC, WARN, NULL},
    {"parallel.compress", "min_bytes", "up|down", ANY_CODEC, WARN, NULL},
    {"parallel.compress", "links", "up|down|stages", ANY_CODEC, WARN, NULL},
    {"parallel.local", "islands", "steps", NOT_ZERO, WARN, NULL},
    {"parallel.local", "fragments", "steps", NOT_ZERO, WARN, NULL},
    {"parallel.local", "delay", "steps", NOT_ZERO, WARN, NULL},
    {"parallel.local", "compress", "steps", NOT_ZERO, WARN, NULL},
    {"parallel.local", "alpha", "steps", NOT_ZERO, WARN, NULL},
    {"parallel.local", "alpha", "delay", NOT_ZERO, WARN, NULL},
    {"parallel.local.outer", "lr", "steps", NOT_ZERO, WARN, "parallel.local"},
    {"parallel.local.outer", "momentum", "steps", NOT_ZERO, WARN, "parallel.local"},
    {"parallel.local.outer", "nesterov", "steps", NOT_ZERO, WARN, "parallel.local"},
};
enum {
    N_CONDITION = sizeof conditions / sizeof *conditions,
    NUMBER_TEXT = 24,
    CHOICE_TEXT = 200,
    NAME_TEXT = 60
};

/* -1: the key is always used. */
static int find(const pst_row *row) {
    for (int i = 0; i < N_CONDITION; i++)
        if (!strcmp(conditions[i].section, row->section) && !strcmp(conditions[i].key, row->key))
            return i;
    return -1;
}

/* Whether condition i + 1 is of the same key. */
static int is_followed(int i) {
    return i + 1 < N_CONDITION && !strcmp(conditions[i].section, conditions[i + 1].section) &&
           !strcmp(conditions[i].key, conditions[i + 1].key);
}

static const char *section_of(int i) {
    return conditions[i].other ? conditions[i].other : conditions[i].section;
}

/* The key at *at of a list such as one|two, which entry i depends on, with its section to `name`;
 * *at becomes the next one, NULL: none. */
static const char *next_name(int i, const char **at, char name[NAME_TEXT]) {
    const size_t n = strcspn(*at, "|");
    const int has_section = memchr(*at, '.', n) != NULL;
    if (has_section) snprintf(name, NAME_TEXT, "%.*s", (int)n, *at);
    else snprintf(name, NAME_TEXT, "%s.%.*s", section_of(i), (int)n, *at);
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return name;
}

/* The value of the key section.key, a text or a whole number. */
static const char *value_of(const char *name, const pst_config *config, char number[NUMBER_TEXT]) {
    char section[NAME_TEXT];
    const char *dot = strrchr(name, '.');
    snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    const pst_row *row = pst_row_find(section, dot + 1);
    const char *at = (const char *)config + row->offset;
    if (row->type != PST_ROW_WHOLE) return *(char *const *)at;
    snprintf(number, NUMBER_TEXT, "%" PRId64, *(const int64_t *)at);
    return number;
}

static int is_value(int i, const char *choice) {
    size_t n = strlen(choice);
    if (!strcmp(conditions[i].values, NOT_ZERO)) return strcmp(choice, "0") != 0;
    for (const char *at = conditions[i].values; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, choice, n) && (!at[n] || at[n] == '|')) return 1;
    }
    return 0;
}

static int holds(int i, const pst_config *config) {
    char name[NAME_TEXT], number[NUMBER_TEXT];
    for (const char *at = conditions[i].choice; at;)
        if (is_value(i, value_of(next_name(i, &at, name), config, number))) return 1;
    return 0;
}

/* "train.optimizer is sgd", of all keys that entry i depends on. */
static const char *choices(int i, const pst_config *config, char out[CHOICE_TEXT]) {
    char name[NAME_TEXT], number[NUMBER_TEXT];
    size_t used = 0;
    for (const char *at = conditions[i].choice; at && used < CHOICE_TEXT;) {
        const char *value = value_of(next_name(i, &at, name), config, number);
        used += (size_t)snprintf(out + used, CHOICE_TEXT - used, "%s%s is %s", used ? " and " : "",
                                 name, value);
    }
    return out;
}

int pst_row_is_used(const pst_row *row, const pst_config *config) {
    int i = find(row);
    return i < 0 || conditions[i].otherwise == WARN || holds(i, config);
}

const char *pst_row_used_with(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    char name[NAME_TEXT];
    size_t used = 0;
    *out = 0;
    for (int i = find(row); i >= 0; i = is_followed(i) ? i + 1 : -1) {
        const char *between = used ? " and " : "";
        for (const char *at = conditions[i].choice; at; between = "or ")
            used += (size_t)snprintf(out + used, PST_ROW_TEXT_BYTES - used, "%s%s ", between,
                                     next_name(i, &at, name));
        for (const char *at = conditions[i].values; *at && used + 3 < PST_ROW_TEXT_BYTES; at++) {
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

/* 0 and an empty string ask for nothing. */
static int is_zero_or_empty(const pst_row *row, const pst_config *config) {
    if (row->type == PST_ROW_TEXT) return !**(char *const *)((const char *)config + row->offset);
    return !pst_row_is_list(row) && number_of(row, config) == 0;
}

/* Whether the key has its default, as in the run.yaml of a run that never set it. */
static int is_default(const pst_row *row, const pst_config *config) {
    double fallback;
    if (row->type == PST_ROW_TEXT)
        return !strcmp(*(char *const *)((const char *)config + row->offset), row->fallback);
    if (row->allowed && !strcmp(row->allowed, row->fallback)) return number_of(row, config) == 0;
    if (row->type == PST_ROW_STEPS && pst_number_share(row->fallback, &fallback))
        return -fallback == number_of(row, config);
    if (row->type == PST_ROW_BYTES)
        return pst_number_bytes(row->fallback, &fallback) && fallback == number_of(row, config);
    return pst_number_real(row->fallback, &fallback) && fallback == number_of(row, config);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Copies of run.yaml up to version 0.1.0 have every model key of that time, used or not. */
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
    char list[PST_ROW_TEXT_BYTES] = "", number[NUMBER_TEXT], name[NAME_TEXT];
    int i = find(row);
    const char *at = conditions[i].choice;
    next_name(i, &at, name);
    for (size_t k = 0; k < pst_n_row; k++) {
        size_t used = strlen(list);
        int beside = !strcmp(pst_rows[k].section, row->section) &&
                     strcmp(pst_rows[k].key, conditions[i].choice) != 0;
        if (beside && pst_row_is_used(&pst_rows[k], config))
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", pst_rows[k].key);
    }
    return pst_fail(PST_EINPUT, "%s.%s is not used by %s %s, which uses %s", row->section, row->key,
                    name, value_of(name, config, number), *list ? list : "no other key");
}

pst_status pst_reading_check_used(pst_reading *reading, const pst_row_origin **at) {
    int early = is_early_copy(reading);
    for (size_t k = 0; k < pst_n_row; k++) {
        const pst_row *row = &pst_rows[k];
        pst_row_origin *origin = &reading->origin[k];
        if ((!origin->override && !origin->line) || pst_row_is_used(row, reading->config)) continue;
        if (early && !origin->override) {
            PST_TRY(pst_row_set(row, reading->config, row->fallback));
            *origin = (pst_row_origin){0};
        } else if (!is_zero_or_empty(row, reading->config)) {
            *at = origin;
            return refuse(row, reading->config);
        }
    }
    return PST_OK;
}

int pst_config_unused(const pst_config *config, size_t *next, char *text, size_t bytes) {
    while (*next < N_CONDITION) {
        int i = (int)(*next)++;
        const pst_row *row = pst_row_find(conditions[i].section, conditions[i].key);
        char why[CHOICE_TEXT];
        if (conditions[i].otherwise != WARN || !config->given[row - pst_rows] || holds(i, config))
            continue;
        if (is_default(row, config)) continue;
        while (is_followed((int)*next - 1)) ++*next; /* one reason is enough */
        snprintf(text, bytes, "%s.%s has no effect: %s", row->section, row->key,
                 choices(i, config, why));
        return 1;
    }
    return 0;
}
