/* test: label=quick */
/* The timeline as a picture: well formed, as wide as it needs, in colours that everybody can tell
 * apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/draw/timeline.h"
#include "pipeline/study.h"
#include <math.h>

static const pst_instr_cost cost = {
    .latency_ns = 2500, .norm_ns = 100, .gather_ns = 50, .step_ns = 300, .flush = 1};

/* Tags are closed in order; attributes are quoted: enough of an XML parser for what we write. */
static void assert_well_formed(const char *text) {
    const char *open[64];
    int depth = 0;
    for (const char *c = strchr(text, '<'); c; c = strchr(c, '<')) {
        const char *end = strchr(c, '>');
        assert_non_null(end);
        if (c[1] == '/') {
            size_t n = (size_t)(end - c - 2);
            assert_true(depth > 0 && !strncmp(open[depth - 1], c + 2, n) &&
                        strchr(" >", open[depth - 1][n]));
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
    assert_null(strstr(text, "<title></title>"));
}

static char *draw(const char *schedule, uint32_t p, uint32_t m, uint64_t ns, const char *title,
                  size_t *bytes) {
    study s;
    pst_timing *t;
    char *text = NULL;
    assert_int_equal(study_open(&s, schedule, p, m, (pst_pass_ns){ns, ns, ns}, &cost), PST_OK);
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

/* As wide as there is room; its own size follows what there is to see, within limits. */
static double width_of(const char *schedule, uint32_t p, uint32_t m) {
    size_t bytes;
    double width = 0, height = 0;
    char *text = draw(schedule, p, m, 1000000, "title", &bytes);
    assert_int_equal(
        sscanf(text,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %lf %lf\" width=\"100%%\"",
               &width, &height),
        2);
    assert_null(memmem(text, (size_t)(strchr(text, '>') - text), " height=", 8));
    assert_true(height > 0);
    free(text);
    return width;
}

static void width_follows_content(void **state) {
    (void)state;
    double little = width_of("1f1b", 2, 2), some = width_of("zb-h1", 4, 16),
           much = width_of("zb-h1", 16, 64);
    assert_true(little > 600 && little < 900);
    assert_true(some > little && much > some);
    assert_true(width_of("1f1b", 16, 512) < 3000);
}

/* --- colours ---------------------------------------------------------------------------------- */

typedef struct {
    double r, g, b; /* linear */
} colour;

static double linear(unsigned c) {
    return c <= 10 ? c / 255. / 12.92 : pow((c / 255. + .055) / 1.055, 2.4);
}

/* What .CLASS of the scheme is filled with. */
static colour fill_of(const char *scheme, const char *class) {
    char key[32];
    unsigned r, g, b;
    snprintf(key, sizeof key, ".%s{fill:#", class);
    const char *at = strstr(scheme, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%2x%2x%2x", &r, &g, &b), 3);
    return (colour){linear(r), linear(g), linear(b)};
}

static double luminance(colour c) { return .2126 * c.r + .7152 * c.g + .0722 * c.b; }

/* WCAG 2. */
static double contrast(colour a, colour b) {
    double x = luminance(a) + .05, y = luminance(b) + .05;
    return x > y ? x / y : y / x;
}

/* As who lacks one kind of cone sees it (Machado, Oliveira, Fernandes 2009, severity 1). */
static colour seen(colour c, int kind) {
    static const double as[4][9] = {
        {1, 0, 0, 0, 1, 0, 0, 0, 1},
        {.152286, 1.052583, -.204868, .114503, .786281, .099216, -.003882, -.048116, 1.051998},
        {.367322, .860646, -.227968, .280085, .672501, .047413, -.011820, .042940, .968881},
        {1.255528, -.076749, -.178779, -.078411, .930809, .147602, .004733, .691367, .303900},
    };
    const double *m = as[kind];
    return (colour){fmin(fmax(m[0] * c.r + m[1] * c.g + m[2] * c.b, 0), 1),
                    fmin(fmax(m[3] * c.r + m[4] * c.g + m[5] * c.b, 0), 1),
                    fmin(fmax(m[6] * c.r + m[7] * c.g + m[8] * c.b, 0), 1)};
}

static double lab_part(double t) { return t > .008856 ? cbrt(t) : 7.787 * t + 16. / 116; }

/* Distance in CIELAB: 2 can just be seen. */
static double apart(colour a, colour b) {
    const colour c[2] = {a, b};
    double lab[2][3];
    for (int k = 0; k < 2; k++) {
        double x = lab_part((.4124 * c[k].r + .3576 * c[k].g + .1805 * c[k].b) / .95047);
        double y = lab_part(luminance(c[k]));
        double z = lab_part((.0193 * c[k].r + .1192 * c[k].g + .9505 * c[k].b) / 1.08883);
        lab[k][0] = 116 * y;
        lab[k][1] = 500 * (x - y);
        lab[k][2] = 200 * (y - z);
    }
    return sqrt(pow(lab[0][0] - lab[1][0], 2) + pow(lab[0][1] - lab[1][1], 2) +
                pow(lab[0][2] - lab[1][2], 2));
}

static void check_colours(const char *scheme) {
    static const uint8_t op[] = {PST_OP_F, PST_OP_B, PST_OP_W, PST_OP_BW, PST_OP_STEP};
    colour fill[5];
    char class[8];
    for (int i = 0; i < 5; i++) {
        snprintf(class, sizeof class, "o%u", op[i]);
        fill[i] = fill_of(scheme, class);
        snprintf(class, sizeof class, "t%u", op[i]);
        assert_true(contrast(fill[i], fill_of(scheme, class)) >= 4.5);
        for (int k = 0; k < i; k++)
            for (int kind = 0; kind < 4; kind++)
                if (apart(seen(fill[i], kind), seen(fill[k], kind)) < 16)
                    fail_msg("kinds %d and %d look alike to eyes of kind %d", i, k, kind);
        assert_true(apart(fill[i], fill_of(scheme, "row")) > 20);
    }
}

static void colours_can_be_told_apart(void **state) {
    (void)state;
    size_t bytes;
    char *text = draw("1f1b", 2, 2, 1000000, NULL, &bytes),
         *dark = strstr(text, "@media (prefers-color-scheme:dark)");
    assert_non_null(dark);
    check_colours(text);
    check_colours(dark);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_well_formed),
        cmocka_unit_test(width_follows_content),
        cmocka_unit_test(colours_can_be_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
