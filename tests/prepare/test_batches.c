/* test: label=quick isa=any */
/* The table of batch sizes against a count step by step, for random warm-ups (PST_SEED): each step
 * begins where the one before ended, sizes are those of the definition, and the numbers of steps
 * and samples invert each other. */
#include "base/rng.h"
#include "prepare/batches.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { CASES = 2000, STEPS = 400 };

/* The size of a step that begins with sample `sample`: of the sizes from, ..., batch, as many
 * equally long shares of the tokens have passed. */
static uint64_t size_at(const pst_batches_spec *s, uint64_t sample) {
    if (!s->from || s->from == s->batch) return s->batch;
    const uint64_t units = s->batch / s->from, sizes = units < PST_BATCHES ? units : PST_BATCHES;
    const uint64_t share = sample * s->per_sample * (sizes - 1) / s->tokens;
    if (share >= sizes - 1) return s->batch;
    const double unit = (double)share * (double)(units - 1) / (double)(sizes - 1);
    return s->from * (1 + (uint64_t)(unit + 0.5));
}

static void check(const pst_batches_spec *s) {
    pst_batches b;
    uint64_t sample = 0, grows = 0;
    pst_batches_fill(s, &b);
    assert_true(b.n >= 1 && b.n <= PST_BATCHES && b.row[b.n - 1].size == s->batch);
    for (uint64_t step = 0; step < STEPS; step++) {
        const uint64_t size = pst_batches_size(&b, step);
        assert_int_equal(pst_batches_before(&b, step), sample);
        assert_int_equal(size, size_at(s, sample));
        assert_true(size >= grows && (!s->from || size % s->from == 0));
        assert_int_equal(pst_batches_steps(&b, sample), step);
        assert_int_equal(pst_batches_steps(&b, sample + 1), step + 1);
        assert_int_equal(pst_batches_steps(&b, sample + size), step + 1);
        grows = size;
        sample += size;
    }
}

static void random_warmups(void **state) {
    const char *text = getenv("PST_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1, key = pst_rng_key(seed, "batches");
    (void)state;
    printf("seed %llu (PST_SEED repeats it)\n", (unsigned long long)seed);
    for (uint64_t k = 0; k < CASES; k++) {
        uint32_t word[4];
        pst_rng_words(key, 0, k, word);
        const uint64_t from = 1 + word[0] % 32, units = 1 + word[1] % (k % 2 ? 8 : 100);
        const uint64_t per_sample = 1 + word[2] % 64, most = from * units * per_sample * 50;
        check(&(pst_batches_spec){from * units, from, 1 + word[3] % most, per_sample});
    }
}

static void without_warmup(void **state) {
    pst_batches b;
    (void)state;
    check(&(pst_batches_spec){.batch = 32, .per_sample = 4});
    pst_batches_fill(&(pst_batches_spec){32, 4, UINT64_C(100000000000000000), 1}, &b); /* most */
    assert_int_equal(pst_batches_size(&b, 0), 4);
    assert_int_equal(b.n, 8);
    assert_int_equal(b.row[7].sample / 1000, UINT64_C(100000000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_warmups),
                                       cmocka_unit_test(without_warmup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
