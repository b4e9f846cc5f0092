/* test: label=quick */
/* Schedules: the published orders, written out for small cases; every generator passes the check,
 * every mutation fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/study.h"

static void assert_prints(const char *name, uint32_t n_rank, uint32_t n_micro,
                          const char *expected) {
    pst_schedule *s;
    char *text = NULL;
    size_t bytes;
    assert_int_equal(pst_schedule_generate(name, n_rank, 0, n_micro, &s), PST_OK);
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(pst_schedule_print(s, out), PST_OK);
    fclose(out);
    assert_string_equal(strchr(text, '\n') + 1, expected);
    free(text);
    pst_schedule_close(s);
}

static void orders_are_the_published_ones(void **state) {
    (void)state;
    assert_prints(
        "gpipe", 2, 2,
        "rank 0: F.c0.m0 F.c0.m1 BW.c0.m0 BW.c0.m1\nrank 1: F.c1.m0 F.c1.m1 BW.c1.m0 BW.c1.m1\n");
    assert_prints("1f1b", 3, 3,
                  "rank 0: F.c0.m0 F.c0.m1 F.c0.m2 BW.c0.m0 BW.c0.m1 BW.c0.m2\n"
                  "rank 1: F.c1.m0 F.c1.m1 BW.c1.m0 F.c1.m2 BW.c1.m1 BW.c1.m2\n"
                  "rank 2: F.c2.m0 BW.c2.m0 F.c2.m1 BW.c2.m1 F.c2.m2 BW.c2.m2\n");
    assert_prints("1f1b-early", 2, 2,
                  "rank 0: F.c0.m0 F.c0.m1 B.c0.m0 W.c0.m0 B.c0.m1 W.c0.m1\n"
                  "rank 1: F.c1.m0 B.c1.m0 W.c1.m0 F.c1.m1 B.c1.m1 W.c1.m1\n");
    assert_prints("1f1b", 4, 1,
                  "rank 0: F.c0.m0 BW.c0.m0\nrank 1: F.c1.m0 BW.c1.m0\nrank 2: F.c2.m0 BW.c2.m0\n"
                  "rank 3: F.c3.m0 BW.c3.m0\n");
    assert_prints("forward", 2, 2, "rank 0: F.c0.m0 F.c0.m1\nrank 1: F.c1.m0 F.c1.m1\n");
}

static void generated_schedules_pass_the_check(void **state) {
    (void)state;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    assert_true(n > 0);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t p = 1; p <= 17; p++) {
            for (uint32_t m = 1; m <= 20; m++) {
                pst_schedule *s;
                assert_int_equal(pst_schedule_generate(row[k].name, p, 0, m, &s), PST_OK);
                assert_int_equal(s->split, row[k].split);
                assert_int_equal(pst_schedule_check(s), PST_OK);
                pst_schedule_close(s);
            }
        }
    }
}

static void every_mutation_is_refused(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    for (uint32_t round = 0; round < 4000; round++) {
        pst_schedule *s;
        uint32_t p = 1 + study_random(&seed) % 5, m = 1 + study_random(&seed) % 6;
        assert_int_equal(pst_schedule_generate(row[round % rows].name, p, 0, m, &s), PST_OK);
        uint32_t r = study_random(&seed) % p, i = study_random(&seed) % s->n_action[r];
        pst_action *a = &s->action[r][i];
        switch (study_random(&seed) % 5) {
        case 0: /* an action is missing */
            memmove(a, a + 1, (--s->n_action[r] - i) * sizeof *a);
            break;
        case 1: a->micro += 1; break;
        case 2: a->chunk += 1; break;
        case 3:
            a->opcode = (uint8_t)((a->opcode + 1 + study_random(&seed) % (PST_OP_COUNT - 1)) %
                                  PST_OP_COUNT);
            break;
        default: s->rank_of_chunk[r] = p; break;
        }
        assert_int_equal(pst_schedule_check(s), PST_EINPUT);
        pst_schedule_close(s);
    }
}

static void backward_in_another_order_is_refused(void **state) {
    (void)state;
    pst_schedule *s;
    assert_int_equal(pst_schedule_generate("gpipe", 2, 0, 3, &s), PST_OK);
    /* BW of 1 before 0: legal for one GPU, but the sum would have another order */
    s->action[1][3].micro = 1;
    s->action[1][4].micro = 0;
    assert_int_equal(pst_schedule_check(s), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "micro-batch order"));
    pst_schedule_close(s);
}

static void wrong_names_and_sizes_are_explained(void **state) {
    (void)state;
    pst_schedule *s;
    assert_int_equal(pst_schedule_generate("1f1b-erly", 2, 0, 2, &s), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "did you mean \"1f1b-early\""));
    assert_int_equal(pst_schedule_generate("sideways", 2, 0, 2, &s), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "gpipe, 1f1b"));
    assert_int_equal(pst_schedule_generate("1f1b", 0, 0, 2, &s), PST_EINPUT);
    assert_int_equal(pst_schedule_generate("1f1b", 2, 0, 0, &s), PST_EINPUT);
    assert_int_equal(pst_schedule_generate("1f1b", 70000, 0, 1, &s), PST_EINPUT);
    assert_int_equal(pst_schedule_generate("1f1b", 2, 0, UINT32_MAX, &s), PST_EINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_the_published_ones),
        cmocka_unit_test(generated_schedules_pass_the_check),
        cmocka_unit_test(every_mutation_is_refused),
        cmocka_unit_test(backward_in_another_order_is_refused),
        cmocka_unit_test(wrong_names_and_sizes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
