/* Options of other programs, and what to use here instead. Names of run-file keys are in
 * src/config/foreign.c. */
#include "cli.h"
#include <string.h>

static const struct {
    const char *command;
    const char *names; /* "|a|b|" */
    const char *say;
} foreign[] = {
    {"generate", "|top-p|nucleus|typical-p|min-p|",
     "use --top-k K or --temperature T; top-p (nucleus) sampling is not supported"},
    {"generate", "|max-new-tokens|max-tokens|max-length|length|n-predict|",
     "--tokens N is the number of tokens to generate"},
    {"generate", "|model|checkpoint|model-path|ckpt|",
     "give the model as the argument SOURCE, without an option"},
    {"generate", "|temp|", "--temperature T"},
};

static const pst_option *find(const pst_command *command, const char *name, size_t n) {
    for (size_t i = 0; i < command->n_option; i++) {
        const pst_option *o = &command->option[i];
        if (o->name && strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
    }
    return NULL;
}

/* The first long option of the call that the command does not have, without dashes; NULL: none. */
static const char *find_unknown(const pst_command *command, const pst_cli_call *call) {
    for (int i = 1; i < call->argc && strcmp(call->argv[i], "--"); i++) {
        const char *name = call->argv[i] + 2;
        size_t n = strncmp(call->argv[i], "--", 2) ? 0 : strcspn(name, "=");
        const pst_option *o = n ? find(command, name, n) : NULL;
        if (n && !o) return strcmp(name, "help") ? name : NULL;
        const int alone = o && (o->type == PST_OPTION_FLAG || o->type == PST_OPTION_OPTIONAL);
        i += o && !alone && !name[n]; /* skip its value */
    }
    return NULL;
}

/* NULL: not a name that is known from elsewhere. */
static const char *instead_of(const char *name, const pst_cli_call *call) {
    char listed[64];
    snprintf(listed, sizeof listed, "|%s|", name);
    for (char *at = listed; *at; at++)
        if (*at == '_') *at = '-';
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(call->self->name, foreign[i].command) && strstr(foreign[i].names, listed))
            return foreign[i].say;
    return NULL;
}

int pst_cli_foreign(const pst_command *command, const pst_cli_call *call,
                    char text[PST_CLI_INSTEAD]) {
    const char *unknown = find_unknown(command, call);
    const char *key = NULL;
    char name[60];
    char underscored[60];
    if (!unknown) return 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(unknown, "="), unknown);
    strcpy(underscored, name);
    for (char *at = underscored; *at; at++)
        if (*at == '-') *at = '_';
    const char *instead = instead_of(name, call);
    if (!instead && strstr(command->operands, "key=value"))
        key = pst_config_key_for(underscored, &instead);
    if (key)
        snprintf(text, PST_CLI_INSTEAD,
                 "%s: unknown option '--%s'; write keys of the run file without dashes: %s=VALUE",
                 call->self->name, name, key);
    else if (instead)
        snprintf(text, PST_CLI_INSTEAD, "%s: unknown option '--%s': %s", call->self->name, name,
                 instead);
    return key || instead;
}
