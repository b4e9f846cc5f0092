/* `penstock plan --program`: what another program can do of what the run file and the search offer.
 * planning/planning.h declares it. */
#include "planning/planning.h"
#include <string.h>

/* Values of a key of `parallel` that a program has, separated by '|'; the first replaces a
 * contradicting one. */
typedef struct {
    const char *program, *key, *values;
} rule;

static const rule rules[] = {
    {"megatron-2021", "zero", "0|1"}, {"megatron-core", "zero", "1|0"},
    {"fsdp", "pipeline", "1"},        {"fsdp", "tensor", "1"},
    {"fsdp", "zero", "2|1"},          {"fsdp", "recompute", "none|full"},
    {"llm.c", "pipeline", "1"},       {"llm.c", "tensor", "1"},
    {"llm.c", "zero", "1|0"},         {"llm.c", "recompute", "none"},
};
enum { N_RULE = sizeof rules / sizeof *rules };

/* Other programs have schedules whose backward passes are not split, with chunks in rounds. */
int pst_planning_allows_schedule(const pst_planning *x, const pst_schedule_row *row) {
    return !pst_costs_program_is_other(&x->program) ||
           (!row->split && row->placement != PST_PLACE_V_SHAPE);
}

static int is_among(const char *values, const char *value) {
    const size_t n = strlen(value);
    for (const char *at = values; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == n && !strncmp(at, value, n)) return 1;
    return 0;
}

int pst_planning_allows(const pst_planning *x, const char *key, const char *value) {
    for (size_t i = 0; i < N_RULE; i++)
        if (!strcmp(rules[i].program, x->program.name) && !strcmp(rules[i].key, key))
            return is_among(rules[i].values, value);
    return 1;
}

/* The value of a key as in the run file. A list of different values contradicts every rule. */
static const char *value_of(const pst_config *c, const char *key, char text[32]) {
    int64_t number = 0;
    if (!strcmp(key, "recompute"))
        return c->parallel.n_recompute == 1 ? c->parallel.recompute[0] : "a list";
    if (!strcmp(key, "tensor") && c->parallel.n_tensors > 1) return "a list";
    if (!strcmp(key, "pipeline")) number = c->parallel.pipeline;
    if (!strcmp(key, "tensor")) number = c->parallel.tensor;
    if (!strcmp(key, "zero")) number = c->parallel.zero;
    snprintf(text, 32, "%lld", (long long)number);
    return text;
}

static void note(pst_planning *x, const char *key, const char *has, const char *given) {
    if (x->n_override < PST_PLANNING_OVERRIDES)
        snprintf(x->override[x->n_override++], sizeof *x->override, "parallel.%s=%s, not %s", key,
                 has, given);
}

static pst_status apply(pst_planning *x, pst_config *config, const rule *r) {
    char text[32], first[32];
    const char *value = value_of(config, r->key, text);
    const int given = pst_config_given(config, "parallel", r->key);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(r->values, "|"), r->values);
    if (given && is_among(r->values, value)) return PST_OK;
    if (!given && strchr(r->values, '|')) return PST_OK; /* the search chooses */
    if (given) note(x, r->key, first, value);
    return pst_config_override(config, "parallel", r->key, first);
}

/* A schedule that the program does not have becomes the first one that it has. */
static pst_status apply_schedule(pst_planning *x, pst_config *config) {
    const pst_schedule_row *row, *other;
    uint32_t n, i = 0;
    if (!pst_config_given(config, "parallel", "schedule")) return PST_OK;
    PST_TRY(pst_config_at(config, "parallel", "schedule",
                          pst_schedule_find(config->parallel.schedule, &row)));
    if (pst_planning_allows_schedule(x, row)) return PST_OK;
    other = pst_schedule_rows(&n);
    while (i < n &&
           (other[i].kind != PST_SCHEDULE_GENERATED || !pst_planning_allows_schedule(x, other + i)))
        i++;
    if (i == n) return pst_fail(PST_EINTERNAL, "program %s has no schedule", x->program.name);
    note(x, "schedule", other[i].name, row->name);
    return pst_config_override(config, "parallel", "schedule", other[i].name);
}

pst_status pst_planning_program(pst_planning *x, pst_config *config, const char *text) {
    PST_TRY(pst_costs_program_parse(*text ? text : "penstock", &x->program));
    for (size_t i = 0; i < N_RULE; i++)
        if (!strcmp(rules[i].program, x->program.name)) PST_TRY(apply(x, config, &rules[i]));
    return apply_schedule(x, config);
}
