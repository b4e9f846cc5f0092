/* test: label=quick */
/* The arena: alignment, the canary behind it, and finding the last touched byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include <string.h>

static void plain_arena_is_zero_and_aligned(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4095, 4096, 100000, (2u << 20) + 3, 5u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pst_arena arena;
        assert_int_equal(pst_arena_open(sizes[i], 0, &arena), PST_OK);
        assert_int_equal(arena.bytes, sizes[i]);
        assert_true(arena.mapped >= sizes[i] + PST_ARENA_CANARY_BYTES && arena.mapped % 4096 == 0);
        assert_int_equal((uintptr_t)arena.base % (sizes[i] >= 2u << 20 ? 2u << 20 : 4096), 0);
        for (uint64_t at = 0; at < sizes[i]; at += 997) assert_int_equal(arena.base[at], 0);
        if (sizes[i]) memset(arena.base, 7, sizes[i]);
        assert_true(pst_arena_intact(&arena));
        /* cannot tell: says nothing was */
        assert_int_equal(pst_arena_touched(&arena, 3, sizes[i]), 3);
        pst_arena_close(&arena);
        assert_null(arena.base);
    }
}

static void canary_page_tells_an_overrun(void **state) {
    (void)state;
    pst_arena arena;
    assert_int_equal(pst_arena_open(1001, 0, &arena), PST_OK);
    uint8_t *behind = arena.base + 1001;
    for (uint64_t at = 0; at < PST_ARENA_CANARY_BYTES; at += 1 + at / 2) {
        uint8_t keep = behind[at];
        behind[at] ^= 1;
        assert_false(pst_arena_intact(&arena));
        behind[at] = keep;
        assert_true(pst_arena_intact(&arena));
    }
    pst_arena_close(&arena);
}

static void touched_finds_the_last_byte(void **state) {
    (void)state;
    enum { N = 3000 };
    pst_arena arena;
    assert_int_equal(pst_arena_open(N, 1, &arena), PST_OK);
    assert_int_equal(pst_arena_touched(&arena, 0, N), 0);
    assert_int_equal(pst_arena_touched(&arena, 5, N), 5);
    for (uint64_t at = 0; at < N; at += 13) {
        uint8_t keep = arena.base[at];
        uint64_t end = at + 1 + (at + 1) % 2; /* two bytes at a time */
        arena.base[at] ^= 0x40;
        assert_int_equal(pst_arena_touched(&arena, 0, N), end);
        assert_int_equal(pst_arena_touched(&arena, 0, N + 100), end);
        assert_int_equal(pst_arena_touched(&arena, at, at + 1), at + 1);
        assert_int_equal(pst_arena_touched(&arena, at + 1, N), at + 1 > N ? N : at + 1);
        assert_int_equal(pst_arena_touched(&arena, 0, at), 0);
        arena.base[at] = keep;
    }
    /* NaN, infinities */
    static const uint32_t odd[] = {0xffc00000, 0x7f800000, 0xff800000, 0x7fc00000, 0};
    static const uint16_t half[] = {0xffc0, 0x7f80, 0xfe00, 0x7c00, 0xfc00}; /* in bf16, fp16 */
    for (uint64_t i = 0; i < 5; i++)
        for (uint64_t at = 2000; at < 2400; at += 2) {
            uint8_t keep[4];
            memcpy(keep, arena.base + at, 4);
            memcpy(arena.base + at, &half[i], 2);
            assert_int_equal(pst_arena_touched(&arena, 0, N), at + 2);
            if (at % 4 == 0) memcpy(arena.base + at, &odd[i], 4);
            if (at % 4 == 0) assert_int_equal(pst_arena_touched(&arena, 0, N), at + 4);
            memcpy(arena.base + at, keep, 4);
        }
    memset(arena.base + 100, 0, 50); /* zeros, constants and copies count as writes */
    assert_int_equal(pst_arena_touched(&arena, 0, N), 150);
    memmove(arena.base + 200, arena.base + 800, 64);
    assert_true(pst_arena_touched(&arena, 0, N) >= 256);
    assert_true(pst_arena_intact(&arena));
    pst_arena_close(&arena);
}

static void too_much_is_a_status(void **state) {
    (void)state;
    pst_arena arena = {.bytes = 77};
    assert_int_equal(pst_arena_open(UINT64_MAX, 0, &arena), PST_ENOMEM);
    assert_int_equal(pst_arena_open(UINT64_MAX / 4, 0, &arena), PST_ENOMEM);
    assert_int_equal(arena.bytes, 77);
    assert_non_null(strstr(pst_error(), "cannot reserve"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_arena_is_zero_and_aligned),
        cmocka_unit_test(canary_page_tells_an_overrun),
        cmocka_unit_test(touched_finds_the_last_byte),
        cmocka_unit_test(too_much_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
