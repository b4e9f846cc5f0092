/* What tests of run files share: reading one, printing it, and a table of wrong ones with the exact
 * complaint. */
#ifndef TESTS_CONFIG_RUN_FILE_H
#define TESTS_CONFIG_RUN_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/rows.h"
#include <stdlib.h>
#include <string.h>

/* The least that a run file has. */
#define LEAST "model: {kind: gpt}\ndata: {paths: a.txt}\n"

typedef struct {
    const char *text, *override, *message; /* override: NULL for none */
} wrong_file;

/* Fails the test when the file is refused. override: NULL for none. Close it. */
static inline pst_config *parsed(const char *text, const char *override) {
    pst_config *config = NULL;
    if (pst_config_parse(text, "run.yaml", &override, override != NULL, &config) != PST_OK)
        fail_msg("refused: %s", pst_error());
    return config;
}

/* The resolved copy; free it. */
static inline char *printed(const pst_config *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(pst_config_print(config, out), PST_OK);
    fclose(out);
    return text;
}

/* Each is refused with its message, to the letter. */
static inline void expect_refused(const wrong_file *wrong, size_t n) {
    int accepted = 0;
    for (size_t i = 0; i < n; i++) {
        pst_config *config = NULL;
        const char *override = wrong[i].override;
        pst_status status =
            pst_config_parse(wrong[i].text, "run.yaml", &override, override != NULL, &config);
        if (status == PST_EINPUT && !config && strcmp(pst_error(), wrong[i].message) == 0) continue;
        print_error("case %zu, status %d\n  expected: %s\n  got:      %s\n", i, status,
                    wrong[i].message, pst_error());
        pst_config_close(config);
        accepted++;
    }
    assert_int_equal(accepted, 0);
}

#endif
