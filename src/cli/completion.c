/* Bash completion from the rows that --help prints: commands, options, run-file keys, and their
 * values where they are known. The script consists of tables (written here, row by row) and one
 * function that completes the line. A value in the tables is a list of words, or @file, @folder,
 * @command, @suite, or @none (no completion). */
#include "cli.h"
#include <string.h>

/* "a|b|c" as "a b c". */
static void put_choices(const char *choices, FILE *out) {
    for (; *choices && choices[1] != '{'; choices++) /* {NAME: N} comes last */
        fputc(*choices == '|' ? ' ' : *choices, out);
}

/* Writes the built-in names of `kind`, then `other` unless it is NULL, "" or one of these names.
 * Returns 0 if `kind` has no built-in names. */
static int put_builtin(const char *kind, const char *other, FILE *out) {
    const char *name;
    size_t i = 0;
    int more = other && *other;
    for (; (name = pst_builtin_name(kind, i)); i++) {
        fprintf(out, "%s%s", i ? " " : "", name);
        more = more && strcmp(name, other);
    }
    if (i && more) fprintf(out, " %s", other);
    return i > 0;
}

static void put_value_of(const pst_option *option, FILE *out) {
    const char *value = option->value ? option->value : "";
    if (strchr(value, '|')) put_choices(value, out);
    else if (option->type != PST_OPTION_STRING) fputs("@none", out);
    else if (!strcmp(value, "DIR")) fputs("@folder", out);
    else if (!strcmp(value, "FILE") || !strcmp(value, "PATH") || strstr(value, ".yaml"))
        fputs("@file", out);
    else if (!option->name || !put_builtin(option->name, NULL, out)) fputs("@none", out);
}

static void put_options(const pst_cli_command *self, const pst_command *rows, void *to) {
    FILE *out = to;
    fprintf(out, "    %s) printf '%%s' '", self->name);
    for (size_t i = 0; i < rows->n_option; i++) {
        const pst_option *o = &rows->option[i];
        if (o->letter) fprintf(out, "-%c ", o->letter);
        if (o->name) fprintf(out, "--%s ", o->name);
    }
    fputs("-h --help' ;;\n", out);
}

static void put_values(const pst_cli_command *self, const pst_command *rows, void *to) {
    FILE *out = to;
    for (size_t i = 0; i < rows->n_option; i++) {
        const pst_option *o = &rows->option[i];
        if (o->type == PST_OPTION_FLAG || o->type == PST_OPTION_OPTIONAL) continue;
        fputs("    ", out);
        if (o->letter) fprintf(out, "'%s -%c'%s", self->name, o->letter, o->name ? " | " : "");
        if (o->name) fprintf(out, "'%s --%s'", self->name, o->name);
        fputs(") printf '%s' '", out);
        put_value_of(o, out);
        fputs("' ;;\n", out);
    }
}

static const char *operand_of(const pst_cli_command *self, const char *operands) {
    if (!*operands) return "@none";
    if (strstr(operands, "COMMAND")) return "@command";
    if (strstr(operands, "SUITE")) return "@suite";
    return strstr(operands, ".yaml") || self->flags & PST_CLI_KEYS ? "@yaml" : "@file";
}

static void put_operand(const pst_cli_command *self, const pst_command *rows, void *to) {
    fprintf(to, "    %s) printf '%%s' '%s%s' ;;\n", self->name,
            operand_of(self, rows->operands ? rows->operands : ""),
            self->flags & PST_CLI_KEYS ? " @keys" : "");
}

static void
put_function(const pst_cli_command *commands, const char *name, const char *word, FILE *out,
             void (*put_case)(const pst_cli_command *self, const pst_command *rows, void *to)) {
    fprintf(out, "%s() {\n    case %s in\n", name, word);
    for (const pst_cli_command *c = commands; c->name; c++) pst_cli_describe(c, put_case, out);
    fputs("    esac\n}\n\n", out);
}

/* --- the keys of a run file ------------------------------------------------------------------- */

static void put_value_of_key(const pst_config_key *key, FILE *out) {
    if (key->allowed) put_choices(key->allowed, out);
    else if (key->is_path) fputs("@file", out);
    else if (!*key->section || !put_builtin(key->key, key->fallback, out)) fputs("@none", out);
}

static void put_keys(FILE *out) {
    pst_config_key key = {.size = sizeof key};
    fputs("_penstock_keys='", out);
    for (size_t i = 0; pst_config_key_at(i, &key); i++)
        fprintf(out, "%s%s%s%s=", i ? " " : "", key.section, *key.section ? "." : "", key.key);
    fputs("'\n_penstock_short_keys='", out);
    for (size_t i = 0; pst_config_key_at(i, &key); i++)
        if (key.short_name) fprintf(out, "%s= ", key.short_name);
    fputs("'\n\n_penstock_key_value() {\n    case $1 in\n", out);
    for (size_t i = 0; pst_config_key_at(i, &key); i++) {
        fputs("    ", out);
        if (*key.section) fprintf(out, "%s.", key.section);
        fputs(key.key, out);
        if (key.short_name) fprintf(out, " | %s", key.short_name);
        fputs(") printf '%s' '", out);
        put_value_of_key(&key, out);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n}\n\n", out);
}

/* --- the function ----------------------------------------------------------------------------- */

static const char *const script[] = {
    "# _penstock_offer WORD PREFIX VALUES...: sets COMPREPLY to the VALUES that complete WORD, "
    "each after PREFIX.",
    "_penstock_offer() {",
    "    local word=$1 prefix=$2",
    "    shift 2",
    "    case ${1-} in",
    "    '' | @none) return ;;",
    "    @command) set -- $_penstock_commands ;;",
    "    @suite) set -- $_penstock_suites ;;",
    "    @file | @folder | @yaml)",
    "        compopt -o filenames 2>/dev/null",
    "        if [[ $1 == @yaml ]]; then",
    "            mapfile -t COMPREPLY < <(compgen -f -X '!*.yaml' -- \"$word\"; compgen -f -X "
    "'!*.yml' -- \"$word\";",
    "                compgen -d -- \"$word\")",
    "            [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\")",
    "        elif [[ $1 == @folder ]]; then mapfile -t COMPREPLY < <(compgen -d -- \"$word\")",
    "        else mapfile -t COMPREPLY < <(compgen -f -- \"$word\")",
    "        fi",
    "        [[ -z $prefix ]] || COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")",
    "        return ;;",
    "    esac",
    "    mapfile -t COMPREPLY < <(compgen -P \"$prefix\" -W \"$*\" -- \"$word\")",
    "}",
    "",
    "# Completes keys and leaves the cursor after the '='; keys without section only if no full "
    "key matches.",
    "_penstock_offer_keys() {",
    "    compopt -o nospace 2>/dev/null",
    "    mapfile -t COMPREPLY < <(compgen -W \"$_penstock_keys\" -- \"$1\")",
    "    [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -W "
    "\"$_penstock_short_keys\" -- \"$1\")",
    "}",
    "",
    "_penstock() {",
    "    local IFS=$' \\t\\n' i word cur prefix='' command='' last='' ended='' join=''",
    "    local -i operands=0",
    "    local -a words=() kinds=()",
    "    COMPREPLY=()",
    "    # Readline breaks words at '=' as well: merge them again.",
    "    for ((i = 1; i <= COMP_CWORD; i++)); do",
    "        word=${COMP_WORDS[i]}",
    "        if [[ ${#words[@]} -gt 0 && ( $word == '=' || $join ) ]]; then words[-1]+=$word",
    "        else words+=(\"$word\")",
    "        fi",
    "        if [[ $word == '=' ]]; then join=yes; else join=''; fi",
    "    done",
    "    [[ ${#words[@]} -gt 0 ]] || words=('')",
    "    cur=${words[-1]}",
    "    command=${words[0]}",
    "    if [[ ${#words[@]} == 1 ]]; then",
    "        _penstock_offer \"$cur\" '' $_penstock_commands --help --version",
    "        return",
    "    fi",
    "    for word in \"${words[@]:1:${#words[@]}-2}\"; do",
    "        if [[ $last ]]; then last=''",
    "        elif [[ $ended || $word != -?* ]]; then operands+=1",
    "        elif [[ $word == -- ]]; then ended=yes",
    "        elif [[ $word != --*=* && -n $(_penstock_value \"$command $word\") ]]; then "
    "last=$word",
    "        fi",
    "    done",
    "    if [[ $last ]]; then",
    "        _penstock_offer \"$cur\" '' $(_penstock_value \"$command $last\")",
    "        return",
    "    fi",
    "# After a '=' that breaks words, readline replaces only the value.",
    "    [[ $COMP_WORDBREAKS == *=* ]] || prefix=${cur%%=*}=",
    "    kinds=($(_penstock_operand \"$command\"))",
    "    if [[ $cur == --*=* && ! $ended ]]; then",
    "        _penstock_offer \"${cur#*=}\" \"$prefix\" $(_penstock_value \"$command ${cur%%=*}\")",
    "    elif [[ $cur == -* && ! $ended ]]; then",
    "        _penstock_offer \"$cur\" '' $(_penstock_options \"$command\")",
    "    elif [[ $operands == 0 ]]; then",
    "        _penstock_offer \"$cur\" '' \"${kinds[0]}\"",
    "    elif [[ ${kinds[1]-} == @keys && $cur == *=* ]]; then",
    "        _penstock_offer \"${cur#*=}\" \"$prefix\" $(_penstock_key_value \"${cur%%=*}\")",
    "    elif [[ ${kinds[1]-} == @keys ]]; then",
    "        _penstock_offer_keys \"$cur\"",
    "    elif [[ ${kinds[0]} == @file || ${kinds[0]} == @suite ]]; then",
    "        _penstock_offer \"$cur\" '' \"${kinds[0]}\"",
    "    fi",
    "}",
    "complete -F _penstock penstock",
};

void pst_cli_completion(const pst_cli_command *commands, FILE *out) {
    fputs("# bash completion for penstock, written by penstock help --write from the table of "
          "options that --help prints.\n\n"
          "_penstock_commands='",
          out);
    for (const pst_cli_command *c = commands; c->name; c++)
        fprintf(out, "%s%s", c == commands ? "" : " ", c->name);
    fputs("'\n_penstock_suites='", out);
    put_builtin("suite", NULL, out);
    fputs("'\n", out);
    put_keys(out);
    put_function(commands, "_penstock_options", "$1", out, put_options);
    put_function(commands, "_penstock_value", "\"$1\"", out, put_values);
    put_function(commands, "_penstock_operand", "$1", out, put_operand);
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) fprintf(out, "%s\n", script[i]);
}
