/* test: label=quick */
/* The timeline as a picture: well formed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/study.h"
#include "pipeline/timeline.h"

static const pst_instr_cost cost = {.latency_ns = 2500, .norm_ns = 100, .gather_ns = 50, .step_ns = 300, .flush = 1};

/* Tags are closed in order; attributes are quoted: enough of an XML parser for what we write. */
static void assert_well_formed(const char *text) {
    const char *open[64];
    int depth = 0;
    for (const char *c = strchr(text, '<'); c; c = strchr(c, '<')) {
        const char *end = strchr(c, '>');
        assert_non_null(end);
        if (c[1] == '/') {
            size_t n = (size_t)(end - c - 2);
            assert_true(depth > 0 && !strncmp(open[depth - 1], c + 2, n) && strchr(" >", open[depth - 1][n]));
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            open[depth++] = c + 1;
        }
        for (const char *q = c; q < end; q++) assert_true(*q != '&' || strchr(q, ';'));
        c = end;
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf\""));
}

static char *draw(const char *schedule, uint32_t p, uint32_t m, uint64_t ns, const char *title, size_t *bytes) {
    study s;
    pst_timing *t;
    char *text = NULL;
    assert_int_equal(study_open(&s, schedule, p, m, ns, ns, ns, &cost), PST_OK);
    assert_int_equal(pst_simulate(s.job, &t), PST_OK);
    FILE *out = open_memstream(&text, bytes);
    assert_int_equal(pst_timeline_svg(s.job, t->span, title, out), PST_OK);
    fclose(out);
    pst_timing_close(t);
    study_close(&s);
    return text;
}

static void pictures_are_well_formed(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    size_t bytes;
    for (int k = 0; k < 4; k++) {
        for (uint32_t p = 1; p <= 33; p += 8) {
            for (uint32_t m = 1; m <= 257; m += 128) {
                char *text = draw(names[k], p, m, 1000000, p % 2 ? "a <b> & \"c\"" : NULL, &bytes);
                assert_well_formed(text);
                assert_true(bytes < 3000000);
                free(text);
            }
        }
    }
    char *text = draw("1f1b-early", 3, 4, 1000000, "a <b> & \"c\"", &bytes);
    assert_non_null(strstr(text, "a &lt;b&gt; &amp; &quot;c&quot;"));
    assert_non_null(strstr(text, "rank 2: B chunk 2, micro-batch 3"));
    free(text);
    text = draw("1f1b", 2, 2, 0, "nothing takes time", &bytes); /* only messages and the flush do */
    assert_well_formed(text);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
