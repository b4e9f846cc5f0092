/* test: label=quick */
/* Schedules as CSV: what is written is read back the same; what PyTorch writes is read; what is
 * wrong is named by line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/schedule/csv.h"
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *text_of(const pst_schedule *s,
                                               pst_status (*print)(const pst_schedule *, FILE *)) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(print(s, out), PST_OK);
    fclose(out);
    return text;
}

static pst_schedule *parse(const char *text) {
    pst_schedule *s;
    if (pst_schedule_csv_parse(text, strlen(text), "s.csv", &s) != PST_OK)
        fail_msg("%s", pst_error());
    return s;
}

/* As spreadsheets write it. */
static void a_mark_of_utf8_is_no_action(void **state) {
    (void)state;
    pst_schedule *s = parse("\xef\xbb\xbf"
                            "0F0,0B0\n");
    assert_int_equal(s->n_rank, 1);
    assert_int_equal(s->n_action[0], 2);
    pst_schedule_close(s);
}

static void written_and_read_back(void **state) {
    (void)state;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t p = 1; p <= 4; p++)
            for (uint32_t m = 1; m <= 9; m += 4) {
                pst_schedule *s;
                assert_int_equal(pst_schedule_generate(row[k].name, p, 0, m, &s), PST_OK);
                char *csv = text_of(s, pst_schedule_csv_write);
                pst_schedule *back = parse(csv);
                char *a = text_of(s, pst_schedule_print), *b = text_of(back, pst_schedule_print);
                assert_string_equal(strchr(a, ':'), strchr(b, ':')); /* all but the name */
                assert_int_equal(back->split, s->split);
                assert_int_equal(back->backward, s->backward);
                assert_memory_equal(back->rank_of_chunk, s->rank_of_chunk,
                                    s->n_chunk * sizeof(uint32_t));
                free(a);
                free(b);
                free(csv);
                pst_schedule_close(s);
                pst_schedule_close(back);
            }
}

static void what_others_write(void **state) {
    (void)state;
    pst_schedule *s = parse("0F0, "
                            ",0SEND_F0,0F1,,0RECV_B0,0B0,0B1,\r\n,1F0,(1F1;1B0)OVERLAP_F_B,1B1,"
                            "1REDUCE_GRAD,1RESHARD\n");
    char *a = text_of(s, pst_schedule_print);
    assert_false(s->split);
    assert_non_null(strstr(a, "F.c1.m0 F.c1.m1 BW.c1.m0 BW.c1.m1"));
    pst_schedule_close(s);
    free(a);
    pst_error_clear();
    pst_schedule *none = NULL;
    static const char partly[] = "0F0,0F1,0B0\n1F0,1B0,1F1,1I1,1W1\n";
    assert_int_equal(pst_schedule_csv_parse(partly, strlen(partly), "s.csv", &none), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "chunk 0, micro-batch 1 is missing"));
    s = parse("0F0,0F1,0B0,0I1,0W1\n"); /* with I and W, B is both */
    a = text_of(s, pst_schedule_print);
    assert_string_equal(strchr(a, '\n') + 1,
                        "rank 0: F.c0.m0 F.c0.m1 B.c0.m0 W.c0.m0 B.c0.m1 W.c0.m1\n");
    free(a);
    pst_schedule_close(s);
}

static void wrong_ones_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"", "s.csv: the file has no actions"},
        {"\n\n", "s.csv: the file has no actions"},
        {"0F0,F1\n", "s.csv:1:5: expected an action such as 0F0, 1I3 or 1W3, found 'F1'"},
        {"0F0\n1X0\n", "s.csv:2:1: expected F, B, I or W after the stage, found '1X0'"},
        {"0F0,0F\n",
         "s.csv:1:5: expected the number of a micro-batch after the letter, found '0F'"},
        {"0F0 0B0\n", "s.csv:1:5: expected a comma after an action, found '0B0'"},
        {"0F0,(0F1;0B0)\n", "s.csv:1:13: expected )OVERLAP_F_B"},
        {"0F0,(0F1;\n", "s.csv:1:10: expected an action"},
        {"0F0,0B0\n0F1,0B1\n", "s.csv:2:1: stage 0 is also on rank 0"},
        {"0F0,0B0\n2F0,2B0\n", "stage 1 has no actions"},
        {"0F4000000000,0B0\n", "s.csv:1:1: expected the number of a micro-batch"},
        {"0F16777215,0B0\n", "s.csv:1:1: stage 0, micro-batch 16777215: the file has only 2 "
                             "actions; expected at least one for each of 1 stages and 16777216"},
        {"65535F0\n", "s.csv:1:1: expected an action"},
        {"0F0,2F0,2B0,0B0\n1F0,1B0\n",
         "s.csv:1: rank 0 has 2 of 3 stages; expected the same number on every rank, 1 to 64"},
        {"0F0,0B0\n\n", "s.csv:2: rank 1 has 0 of 1 stages"},
        {"0B0,0F0\n",
         "s.csv:1:1: schedule custom: rank 0 runs BW of chunk 0, micro-batch 0 before the F"},
        {"0F0,0I0\n", "s.csv:1: schedule custom: W of chunk 0, micro-batch 0 is missing"},
        {"0F0,0F1,0B1,0B0\n", "s.csv:1:9: schedule custom: rank 0 runs BW of chunk 0, micro-batch "
                              "1 before micro-batch 0"},
        {"0F0,0F1,0B0,0I1,0W1,\n1F0,1F1,1B0,1I1,1I1\n",
         "s.csv:2:17: schedule custom: rank 1 runs B of chunk 1, micro-batch 1 twice"},
        {"0F0,0I0,0W0,1F0,1I0,1W0\n",
         "s.csv:1:5: schedule custom deadlocks: rank 0 waits at B of chunk 0, micro-batch 0"},
        {"0F0,0B0,3F0,3B0\n1F0,1B0,2F0,2B0\n", "s.csv:1:5: schedule custom deadlocks: rank 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pst_schedule *s = NULL;
        assert_int_equal(pst_schedule_csv_parse(wrong[i].text, strlen(wrong[i].text), "s.csv", &s),
                         PST_EINPUT);
        assert_null(s);
        if (!strstr(pst_error(), wrong[i].said))
            fail_msg("expected \"%s\", got \"%s\"", wrong[i].said, pst_error());
    }
    pst_schedule *s = NULL;
    assert_int_equal(pst_schedule_csv_load("/nonexistent/s.csv", &s), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "/nonexistent/s.csv"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_of_utf8_is_no_action),
        cmocka_unit_test(written_and_read_back),
        cmocka_unit_test(what_others_write),
        cmocka_unit_test(wrong_ones_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
