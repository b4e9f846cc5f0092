/* Command-line options from a table of rows. The arguments are walked twice, first to check and
 * then to set, so that a wrong command line changes no target. */
#include "penstock/option.h"
#include "base/status.h"
#include "config/number.h"
#include "config/rows.h"
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 100 };

/* The state of a walk over the arguments. */
typedef struct {
    const pst_command *command;
    int argc, at; /* the option is at argv[at] */
    char **argv;
    int set; /* second walk */
    int help;
} walk;

static const char *option_text(const pst_option *option, char text[80]) {
    if (option->name) snprintf(text, 80, "--%s", option->name);
    else snprintf(text, 80, "-%c", option->letter);
    return text;
}

static pst_status refuse(const walk *w, const pst_option *option, const char *value) {
    char name[80], min[PST_NUMBER_BYTES], max[PST_NUMBER_BYTES];
    static const char *const what[] = {[PST_OPTION_INT] = "a whole number",
                                       [PST_OPTION_FLOAT] = "a number",
                                       [PST_OPTION_BYTES] = "bytes, such as 8GiB,",
                                       [PST_OPTION_RATE] = "bytes per second, such as 25GB/s,"};
    return pst_fail(PST_EINPUT, "%s: %s: expected %s from %s to %s, found '%.60s'",
                    w->command->command, option_text(option, name), what[option->type],
                    pst_number_print(option->min, min), pst_number_print(option->max, max), value);
}

static int read_real(pst_option_type type, const char *value, double *real) {
    if (type == PST_OPTION_BYTES) return pst_number_bytes(value, real);
    return type == PST_OPTION_RATE ? pst_number_rate(value, real) : pst_number_real(value, real);
}

static pst_status add(const walk *w, const pst_option *option, const char *value) {
    pst_option_list *list = option->target;
    char name[80];
    if (list->n == PST_OPTION_LIST_MAX)
        return pst_fail(PST_EINPUT, "%s: %s is given more than %d times", w->command->command,
                        option_text(option, name), PST_OPTION_LIST_MAX);
    list->item[list->n++] = value;
    return PST_OK;
}

static pst_status take(const walk *w, const pst_option *option, const char *value) {
    int64_t whole;
    double real;
    switch (option->type) {
    case PST_OPTION_FLAG:
        if (w->set) *(int *)option->target = 1;
        break;
    case PST_OPTION_INT:
        if (!pst_number_whole(value, &whole) || (double)whole < option->min ||
            (double)whole > option->max)
            return refuse(w, option, value);
        if (w->set) *(int64_t *)option->target = whole;
        break;
    case PST_OPTION_FLOAT:
    case PST_OPTION_BYTES:
    case PST_OPTION_RATE:
        if (!read_real(option->type, value, &real) || real < option->min || real > option->max)
            return refuse(w, option, value);
        if (w->set) *(double *)option->target = real;
        break;
    case PST_OPTION_STRING:
    case PST_OPTION_OPTIONAL:
        if (w->set) *(const char **)option->target = value ? value : "";
        break;
    case PST_OPTION_LIST:
        if (w->set) return add(w, option, value);
        break;
    }
    return PST_OK;
}

/* Takes the next argument as the option's value, whatever it looks like ("-5" is a number
 * there). */
static pst_status take_next(walk *w, const pst_option *option) {
    char name[80];
    if (w->at + 1 >= w->argc)
        return pst_fail(PST_EINPUT, "%s: %s needs a value: %s", w->command->command,
                        option_text(option, name), option->value ? option->value : "VALUE");
    return take(w, option, w->argv[++w->at]);
}

static pst_status unknown(const walk *w, const char *text, size_t length) {
    const char *names[65] = {"help"}, *near;
    char word[80];
    size_t n = 1;
    snprintf(word, sizeof word, "%.*s", length < 79 ? (int)length : 79, text);
    for (size_t i = 0; i < w->command->n_option && n < 65; i++)
        if (w->command->option[i].name) names[n++] = w->command->option[i].name;
    near = pst_did_you_mean(word + strspn(word, "-"), names, n);
    if (near && word[1] == '-')
        return pst_fail(PST_EINPUT, "%s: unknown option '%s'; did you mean '--%s'?",
                        w->command->command, word, near);
    return pst_fail(PST_EINPUT, "%s: unknown option '%s'; --help lists all options",
                    w->command->command, word);
}

/* Whether the value may be the next argument. */
static int takes_next(const pst_option *option) {
    return option->type != PST_OPTION_FLAG && option->type != PST_OPTION_OPTIONAL;
}

static pst_status read_long(walk *w) {
    const char *text = w->argv[w->at] + 2, *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    for (size_t i = 0; i < w->command->n_option; i++) {
        const pst_option *option = &w->command->option[i];
        if (!option->name || strlen(option->name) != length ||
            strncmp(option->name, text, length) != 0)
            continue;
        if (option->type == PST_OPTION_FLAG && equals)
            return pst_fail(PST_EINPUT, "%s: --%s takes no value", w->command->command,
                            option->name);
        if (!takes_next(option) || equals) return take(w, option, equals ? equals + 1 : NULL);
        return take_next(w, option);
    }
    w->help = length == 4 && strncmp(text, "help", 4) == 0;
    return w->help ? PST_OK : unknown(w, w->argv[w->at], length + 2);
}

static const pst_option *find_letter(const pst_command *command, char letter) {
    for (size_t i = 0; i < command->n_option; i++)
        if (command->option[i].letter == letter && letter) return &command->option[i];
    return NULL;
}

/* "-v", "-vq" (flags together), "-n4", "-n 4". */
static pst_status read_short(walk *w) {
    for (const char *text = w->argv[w->at] + 1; *text; text++) {
        const pst_option *option = find_letter(w->command, *text);
        if (!option) {
            w->help = *text == 'h';
            return w->help ? PST_OK : unknown(w, w->argv[w->at], strlen(w->argv[w->at]));
        }
        if (takes_next(option)) return text[1] ? take(w, option, text + 1) : take_next(w, option);
        PST_TRY(take(w, option, NULL));
    }
    return PST_OK;
}

static int is_option(const pst_command *command, const char *text) {
    double number;
    if (text[0] != '-' || !text[1]) return 0;
    return text[1] == '-' || find_letter(command, text[1]) || !pst_number_real(text, &number);
}

/* Moves argv[from] to argv[to], to <= from; those between move up by one. */
static void move_front(char **argv, int from, int to) {
    char *moved = argv[from];
    memmove(argv + to + 1, argv + to, (size_t)(from - to) * sizeof *argv);
    argv[to] = moved;
}

static pst_status walk_all(walk *w, size_t *n_operand) {
    size_t n = 0;
    int ended = 0;
    for (w->at = 1; w->at < w->argc && !w->help; w->at++) {
        const char *text = w->argv[w->at];
        if (!ended && strcmp(text, "--") == 0) {
            ended = 1;
        } else if (ended || !is_option(w->command, text)) {
            if (w->set) move_front(w->argv, w->at, 1 + (int)n);
            n++;
        } else {
            PST_TRY(text[1] == '-' ? read_long(w) : read_short(w));
        }
    }
    *n_operand = n;
    return PST_OK;
}

pst_status pst_option_parse(const pst_command *command, int argc, char **argv, size_t *n_operand,
                            int *help) {
    size_t n = 0;
    walk check = {.command = command, .argc = argc, .argv = argv}, set = check;
    PST_TRY(walk_all(&check, &n));
    set.set = 1;
    PST_TRY(walk_all(&set, &n));
    *n_operand = n;
    *help = set.help;
    return PST_OK;
}

void pst_option_print_wrapped(const char *text, int at, int indent, FILE *out) {
    while (*text) {
        int length = (int)strcspn(text, " \n");
        if (at > indent && at + length + 1 > HELP_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        at += fprintf(out, "%s%.*s", at > indent ? " " : "", length, text);
        text += length + (text[length] != 0);
    }
}

static void default_text(const pst_option *option, char text[160]) {
    char number[PST_NUMBER_BYTES];
    text[0] = 0;
    /* 0 and -1 mean "not given": there is no default to print */
    if (option->type == PST_OPTION_INT && *(int64_t *)option->target > 0)
        snprintf(text, 160, " (default %lld)", (long long)*(int64_t *)option->target);
    /* else: not given */
    if (option->type == PST_OPTION_FLOAT && *(double *)option->target >= option->min)
        snprintf(text, 160, " (default %s)", pst_number_print(*(double *)option->target, number));
    const char *value = option->type == PST_OPTION_STRING ? *(const char **)option->target : NULL;
    if (value && value[strspn(value, " \t\n")]) snprintf(text, 160, " (default %.120s)", value);
}

const char *pst_option_text(const pst_option *option, char *text, size_t bytes) {
    char fallback[160];
    default_text(option, fallback);
    snprintf(text, bytes, "%s%s", option->help ? option->help : "", fallback);
    return text;
}

static void print_option(const pst_option *option, FILE *out) {
    char text[512];
    int at = fprintf(out, "  ");
    if (option->letter) at += fprintf(out, "-%c%s", option->letter, option->name ? ", " : "");
    if (!option->letter) at += fprintf(out, "    ");
    if (option->name) at += fprintf(out, "--%s", option->name);
    if (option->value && takes_next(option)) at += fprintf(out, " %s", option->value);
    if (option->value && !takes_next(option)) at += fprintf(out, "[=%s]", option->value);
    if (at + 2 > HELP_COLUMN) {
        at = 0;
        fputc('\n', out);
    }
    fprintf(out, "%*s", HELP_COLUMN - at, "");
    pst_option_print_wrapped(pst_option_text(option, text, sizeof text), HELP_COLUMN, HELP_COLUMN,
                             out);
    fputc('\n', out);
}

void pst_option_help(const pst_command *command, FILE *out) {
    fprintf(out, "Usage: %s [options]%s%s\n\n", command->command,
            command->operands && *command->operands ? " " : "",
            command->operands ? command->operands : "");
    if (command->summary) pst_option_print_wrapped(command->summary, 0, 0, out);
    fputs("\n\nOptions:\n", out);
    int help = 0;
    pst_option row = {.name = "help",
                      .letter = find_letter(command, 'h') ? 0 : 'h',
                      .type = PST_OPTION_FLAG,
                      .help = "Print this help and exit.",
                      .target = &help};
    for (size_t i = 0; i < command->n_option; i++) print_option(&command->option[i], out);
    print_option(&row, out);
}
