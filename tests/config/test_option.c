/* test: label=quick */
/* Command-line options: forms, complaints, operands moved to the front, help; and "did you
 * mean". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "penstock/option.h"
#include <stdlib.h>
#include <string.h>

static int quiet, json;
static int64_t ranks;
static double scale;
static const char *runs, *elastic;
static pst_option_list list;
static const pst_option rows[] = {
    {'n', "ranks", "N", PST_OPTION_INT, 0, 64, "Local ranks to start.", &ranks},
    {'s', "scale", "X", PST_OPTION_FLOAT, -10, 10, "A factor.", &scale},
    {0, "runs", "DIR", PST_OPTION_STRING, 0, 0, "Folder of runs.", &runs},
    {'q', "quiet", NULL, PST_OPTION_FLAG, 0, 0, "Says less.", &quiet},
    {'j', "json", NULL, PST_OPTION_FLAG, 0, 0, "JSON.", &json},
    {0, "set", "KEY=VALUE", PST_OPTION_LIST, 0, 0, "Several.", &list},
    {0, "elastic", "MIN:MAX", PST_OPTION_OPTIONAL, 0, 0, "Goes on.", &elastic},
};
static const pst_command command = {"penstock train", "RUN.yaml [key=value ...]", "Trains.", rows,
                                    7};

static char *argv[16];
static size_t n_operand;
static int help;

/* Splits `line` at blanks behind argv[0] and parses it. */
static pst_status parse(const char *line) {
    static char copy[256];
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    argv[0] = "train";
    for (char *at = strtok(copy, " "); at; at = strtok(NULL, " ")) argv[argc++] = at;
    argv[argc] = NULL;
    quiet = json = help = 0;
    ranks = 1;
    scale = 0.5;
    runs = "runs";
    elastic = NULL;
    n_operand = 99;
    list.n = 0;
    return pst_option_parse(&command, argc, argv, &n_operand, &help);
}

/* The value belongs to the option only behind "=". */
static void optional_value(void **state) {
    (void)state;
    assert_int_equal(parse("run.yaml"), PST_OK);
    assert_null(elastic);
    assert_int_equal(parse("--elastic run.yaml"), PST_OK);
    assert_int_equal(n_operand, 1);
    assert_string_equal(elastic, "");
    assert_int_equal(parse("run.yaml --elastic=2:4 -n 3"), PST_OK);
    assert_int_equal(n_operand, 1);
    assert_string_equal(elastic, "2:4");
    assert_int_equal(ranks, 3);
}

static void every_form(void **state) {
    (void)state;
    assert_int_equal(parse("run.yaml -n 4 lr=3 --scale=-2.5 -qj --runs out last"), PST_OK);
    assert_int_equal(n_operand, 3);
    assert_string_equal(argv[1], "run.yaml");
    assert_string_equal(argv[2], "lr=3");
    assert_string_equal(argv[3], "last");
    assert_string_equal(argv[4], "-n"); /* options keep their order behind the operands */
    assert_string_equal(argv[5], "4");
    assert_string_equal(argv[9], "out");
    assert_true(ranks == 4 && scale == -2.5 && quiet && json && !help);
    assert_string_equal(runs, "out");

    assert_int_equal(parse("-n8 -s -3 --quiet"), PST_OK);
    assert_true(ranks == 8 && scale == -3 && quiet && n_operand == 0);
    assert_int_equal(parse("-qn8"), PST_OK);
    assert_true(ranks == 8 && quiet);
    /* no such letter: a number is an operand, and so is a dash */
    assert_int_equal(parse("-4 - x"), PST_OK);
    assert_int_equal(n_operand, 3);
    assert_int_equal(parse("a -- -q --bogus b"), PST_OK);
    assert_true(n_operand == 4 && !quiet);
    assert_string_equal(argv[3], "--bogus");
    assert_int_equal(parse(""), PST_OK);
    assert_true(n_operand == 0 && ranks == 1 && scale == 0.5);
    assert_int_equal(parse("--set a=1 x --set=b=2"), PST_OK);
    assert_true(list.n == 2 && n_operand == 1);
    assert_string_equal(list.item[0], "a=1");
    assert_string_equal(list.item[1], "b=2");
    assert_int_equal(parse("--runs="), PST_OK);
    assert_string_equal(runs, "");
}

static void help_ends_it(void **state) {
    (void)state;
    assert_int_equal(parse("a --help --bogus"), PST_OK);
    assert_true(help && n_operand == 1);
    assert_int_equal(parse("-h"), PST_OK);
    assert_true(help);
}

static void complaints(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"-n four", "penstock train: --ranks: expected a whole number from 0 to 64, found 'four'"},
        {"--ranks=65", "penstock train: --ranks: expected a whole number from 0 to 64, found '65'"},
        {"--ranks -1", "penstock train: --ranks: expected a whole number from 0 to 64, found '-1'"},
        {"--scale 1e2", "penstock train: --scale: expected a number from -10 to 10, found '1e2'"},
        {"--scale nan", "penstock train: --scale: expected a number from -10 to 10, found 'nan'"},
        {"-n", "penstock train: --ranks needs a value: N"},
        {"x --runs", "penstock train: --runs needs a value: DIR"},
        {"--quiet=1", "penstock train: --quiet takes no value"},
        {"--rnaks=3", "penstock train: unknown option '--rnaks'; did you mean '--ranks'?"},
        {"--hepl", "penstock train: unknown option '--hepl'; did you mean '--help'?"},
        {"--frobnicate", "penstock train: unknown option '--frobnicate'; --help lists all options"},
        {"-x", "penstock train: unknown option '-x'; --help lists all options"},
        {"-qx", "penstock train: unknown option '-qx'; --help lists all options"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].line), PST_EINPUT);
        assert_string_equal(pst_error(), cases[i].message);
    }
    assert_int_equal(parse("b -q -n 3 --bogus"), PST_EINPUT); /* nothing was changed */
    assert_true(!quiet && ranks == 1 && n_operand == 99);
    assert_string_equal(argv[1], "b");
}

static void help_text(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    parse("");
    FILE *out = open_memstream(&text, &bytes);
    pst_option_help(&command, out);
    fclose(out);
    assert_non_null(
        strstr(text, "Usage: penstock train [options] RUN.yaml [key=value ...]\n\nTrains.\n"));
    assert_non_null(strstr(text, "  -n, --ranks N           Local ranks to start. (default 1)\n"));
    assert_non_null(strstr(text, "      --runs DIR          Folder of runs. (default runs)\n"));
    assert_non_null(strstr(text, "  -h, --help"));
    free(text);
}

static void did_you_mean(void **state) {
    (void)state;
    static const char *const names[] = {"train",   "plan",   "simulate", "generate",
                                        "inspect", "doctor", "lr",       "batch"};
    static const struct {
        const char *word, *near;
    } cases[] = {
        {"trian", "train"},     {"TRAIN", "train"},  {"simulat", "simulate"},
        {"batchsize", "batch"}, {"gen", "generate"}, {"l", NULL},
        {"lrr", "lr"},          {"xyzzy", NULL},     {"", NULL},
        {"doctr", "doctor"},    {"p", NULL},         {"inspect_", "inspect"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = pst_did_you_mean(cases[i].word, names, 8);
        if (cases[i].near ? !near || strcmp(near, cases[i].near) != 0 : near != NULL)
            fail_msg("'%s' -> '%s'", cases[i].word, near ? near : "nothing");
    }
    static char big[100000];
    memset(big, 'a', sizeof big - 1);
    assert_null(pst_did_you_mean(big, names, 8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_value), cmocka_unit_test(every_form),
        cmocka_unit_test(help_ends_it),   cmocka_unit_test(complaints),
        cmocka_unit_test(help_text),      cmocka_unit_test(did_you_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
