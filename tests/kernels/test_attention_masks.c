/* test: label=quick timeout=120 */
/* Attention over documents and over padding: each document, and each sample without its padding, is
 * computed as if it were alone, and what it cannot see changes nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "backends.h"

/* Copies positions [first, first + to->spec.t) of the only sample of `from`. */
static void cut_document(const case_state *from, uint64_t first, case_state *to) {
    for (uint32_t i = 0; i < to->n_buffer; i++) {
        case_buffer *b = &to->buffer[i];
        const case_buffer *all = case_find(from, b->kind, b->index);
        const uint64_t t = from->spec.t, own = to->spec.t,
                       rows = b->kind == PST_ARG_SAVED ? from->spec.heads : 1,
                       each = all->size * all->n / rows / t; /* bytes of a position */
        for (uint64_t r = 0; r < rows; r++)
            memcpy((uint8_t *)b->data + r * own * each,
                   (uint8_t *)all->data + (r * t + first) * each, own * each);
    }
}

static const uint32_t attention_writes[] = {PST_ARG_OUT, PST_ARG_SAVED, PST_ARG_DIN};

/* The document at [first, end) of the sample has the same results as alone. */
static void check_alone(const case_state *all, uint64_t first, uint64_t end,
                        const pst_kernel_row *f) {
    kernel_case own = all->spec;
    case_state alone, packed;
    own.t = end - first;
    own.starts = 0;
    assert_int_equal(case_open(&own, 0, 0, &alone), PST_OK);
    assert_int_equal(case_open(&own, 0, 0, &packed), PST_OK);
    cut_document(all, first, &alone);
    cut_document(all, first, &packed);
    assert_int_equal(run_on(&alone, f, 1, (case_flags){0}), PST_OK);
    assert_int_equal(run_on(&alone, f + 1, 1, (case_flags){0}), PST_OK);
    for (size_t i = 0; i < 3; i++) {
        const case_buffer *x = case_find(&alone, attention_writes[i], 0),
                          *y = case_find(&packed, attention_writes[i], 0);
        float *a = case_floats(x), *b = case_floats(y);
        double distance = a && b ? case_distance(a, b, x->n) : INFINITY;
        free(a);
        free(b);
        if (!(distance <= tolerance(x)))
            fail_msg("%s: positions %lu to %lu of %s are %.3g from the same document alone",
                     f->name, (unsigned long)first, (unsigned long)end, case_text(&all->spec),
                     distance);
    }
    case_close(&alone);
    case_close(&packed);
}

/* Other numbers in the first document change no bit of the later ones. */
static void check_unseen(case_state *all, uint64_t end, const pst_kernel_row *f) {
    case_state before, after;
    kernel_case rest = all->spec;
    rest.t -= end;
    rest.starts = 0;
    assert_int_equal(case_open(&rest, 0, 0, &before), PST_OK);
    assert_int_equal(case_open(&rest, 0, 0, &after), PST_OK);
    cut_document(all, end, &before);
    case_buffer *changed[] = {case_find(all, PST_ARG_IN, 0), case_find(all, PST_ARG_DOUT, 0)};
    for (size_t i = 0; i < 2; i++) {
        const uint64_t n = changed[i]->n / all->spec.t * end;
        for (uint64_t k = 0; k < n; k++) case_put(changed[i], k, (float)(k % 7) - 3);
    }
    assert_int_equal(run_on(all, f, 1, (case_flags){0}), PST_OK);
    assert_int_equal(run_on(all, f + 1, 1, (case_flags){0}), PST_OK);
    cut_document(all, end, &after);
    for (size_t i = 0; i < 3; i++) {
        const case_buffer *x = case_find(&before, attention_writes[i], 0),
                          *y = case_find(&after, attention_writes[i], 0);
        if (memcmp(x->data, y->data, x->size * x->n))
            fail_msg("%s: attention reaches over the border at %lu of %s", f->name,
                     (unsigned long)end, case_text(&all->spec));
    }
    case_close(&before);
    case_close(&after);
}

static void check_documents(const kernel_case *k, const pst_kernel_row *f) {
    static const uint64_t ends[] = {1, 4, 63, 64, 130, 199, 200};
    case_state all;
    assert_int_equal(case_open(k, seed, 0, &all), PST_OK);
    int32_t *starts = case_find(&all, PST_ARG_IN, 1)->data;
    for (uint64_t t = 0, d = 0, first = 0; t < k->t; t++) {
        if (t == ends[d]) first = ends[d++];
        starts[t] = (int32_t)first;
    }
    assert_int_equal(run_on(&all, f, 2, (case_flags){0}), PST_OK);
    assert_int_equal(run_on(&all, f + 1, 2, (case_flags){0}), PST_OK);
    for (size_t d = 0; d < sizeof ends / sizeof *ends; d++)
        check_alone(&all, d ? ends[d - 1] : 0, ends[d], f);
    for (size_t d = 0; d + 1 < sizeof ends / sizeof *ends; d++) check_unseen(&all, ends[d], f);
    case_close(&all);
}

static void test_documents(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!strcmp(rows[i].op, "attention") && rows[i].pass == PST_PASS_F &&
            !(rows[i].isa & ~pst_cpu_isa()))
            check_documents(&(kernel_case){.op = "attention",
                                           .b = 1,
                                           .t = 200,
                                           .c = 2 * 20,
                                           .heads = 2,
                                           .starts = 1,
                                           .dtype = case_row_dtype(&rows[i])},
                            &rows[i]);
}

/* One sample with `length` positions out of `from`'s sample `sample`, which may have padding behind
 * them. */
static void cut_sample(const case_state *from, uint64_t sample, case_state *to) {
    for (uint32_t i = 0; i < to->n_buffer; i++) {
        case_buffer *b = &to->buffer[i];
        const case_buffer *all = case_find(from, b->kind, b->index);
        const uint64_t t = from->spec.t, length = to->spec.t;
        uint64_t rows = b->kind == PST_ARG_SAVED ? from->spec.heads : 1,
                 row = all->size * all->n / from->spec.b / rows;
        for (uint64_t r = 0; r < rows; r++)
            memcpy((uint8_t *)b->data + r * row / t * length,
                   (uint8_t *)all->data + (sample * rows + r) * row, row / t * length);
    }
}

/* A padded sample against itself at its own length: the same bits in all that F and B write of its
 * rows. */
static void check_padding(const kernel_case *k, const pst_kernel_row *f, const pst_kernel_row *b) {
    static const uint32_t written[] = {PST_ARG_OUT, PST_ARG_SAVED, PST_ARG_DIN};
    case_state all;
    assert_int_equal(case_open(k, seed, 0, &all), PST_OK);
    assert_int_equal(run_on(&all, f, 2, (case_flags){0}), PST_OK);
    assert_int_equal(run_on(&all, b, 2, (case_flags){0}), PST_OK);
    const int32_t *lengths = case_find(&all, PST_ARG_IN, 1)->data;
    for (uint64_t sample = 0; sample < k->b; sample++) {
        kernel_case own = *k;
        case_state alone, want;
        own.b = 1;
        own.t = (uint64_t)lengths[sample];
        own.lengths = 0;
        if (!own.t) continue;
        assert_int_equal(case_open(&own, 0, 0, &alone), PST_OK);
        assert_int_equal(case_open(&own, 0, 0, &want), PST_OK);
        cut_sample(&all, sample, &alone);
        cut_sample(&all, sample, &want);
        for (size_t i = 0; i < 3; i++) {
            case_buffer *x = case_find(&alone, written[i], 0);
            memset(x->data, 0xff, x->size * x->n);
        }
        assert_int_equal(run_on(&alone, f, 1, (case_flags){0}), PST_OK);
        assert_int_equal(run_on(&alone, b, 1, (case_flags){0}), PST_OK);
        for (size_t i = 0; i < 3; i++) {
            const case_buffer *x = case_find(&alone, written[i], 0),
                              *y = case_find(&want, written[i], 0);
            if (memcmp(x->data, y->data, x->size * x->n))
                fail_msg("%s: sample %lu of %s has other bits at its own length", f->name,
                         (unsigned long)sample, case_text(k));
        }
        case_close(&alone);
        case_close(&want);
    }
    case_close(&all);
}

static void test_padding(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (strcmp(rows[i].op, "attention") || rows[i].pass != PST_PASS_F ||
            (rows[i].isa & ~pst_cpu_isa()))
            continue;
        for (int bidirectional = 0; bidirectional < 2; bidirectional++)
            for (uint64_t t = 9; t < 300; t += 61)
                check_padding(&(kernel_case){.op = "attention",
                                             .b = 5,
                                             .t = t,
                                             .c = 3 * 20,
                                             .heads = 3,
                                             .bidirectional = bidirectional,
                                             .lengths = 1,
                                             .dtype = case_row_dtype(&rows[i])},
                              &rows[i], &rows[i + 1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
