/* Files of tokens: Megatron's indexed data sets written and read, llm.c's and nanoGPT's; every
 * wrong number in a header is refused. */
#include "base/folder.h"
#include "data/indexed.h"
#include "data/indexed_format.h"
#include "data/tokens.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Documents of 3, 0 and 2 tokens. */
static void write_set(const char *prefix, uint32_t vocabulary, int32_t first) {
    pst_indexed_writer *w;
    int32_t token[5];
    for (int i = 0; i < 5; i++) token[i] = first + i;
    assert_int_equal(pst_indexed_create(prefix, vocabulary, &w), PST_OK);
    assert_int_equal(pst_indexed_add(w, token, 2), PST_OK);
    assert_int_equal(pst_indexed_add(w, token + 2, 1), PST_OK);
    assert_int_equal(pst_indexed_end(w), PST_OK);
    assert_int_equal(pst_indexed_end(w), PST_OK);
    assert_int_equal(pst_indexed_add(w, token + 3, 2), PST_OK);
    assert_int_equal(pst_indexed_end(w), PST_OK);
    assert_int_equal(pst_indexed_finish(w, PST_OK), PST_OK);
}

static void written_and_read(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        pst_indexed *x;
        int32_t token[5], first = wide ? 70000 : 65000;
        write_set("set", wide ? 80000 : 65100, first);
        if (pst_indexed_open("set", &x) != PST_OK) fail_msg("%s", pst_error());
        assert_int_equal(pst_indexed_tokens(x), 5);
        assert_int_equal(pst_indexed_documents(x), 3);
        static const uint64_t starts[] = {0, 3, 3, 5};
        for (uint64_t i = 0; i < 4; i++) assert_int_equal(pst_indexed_document(x, i), starts[i]);
        assert_int_equal(pst_indexed_read(x, 1, 4, token), PST_OK);
        for (int i = 0; i < 4; i++) assert_int_equal(token[i], first + 1 + i);
        assert_int_equal(pst_indexed_read(x, 3, 3, token), PST_EINTERNAL);
        pst_indexed_close(x);
    }
}

/* An index by hand: type, sequences with their places, borders. */
typedef struct {
    uint64_t version, n, n_border;
    int32_t length[2];
    uint64_t place[2], border[3];
    uint8_t type;
} index_file;

static const index_file good = {1, 2, 3, {2, 1}, {4, 0}, {0, 1, 2}, PST_INDEXED_UINT16};

static pst_status open_index(const index_file *f, size_t bytes, pst_indexed **x) {
    uint8_t out[128] = PST_INDEXED_MAGIC;
    memcpy(out + 9, &f->version, 8);
    out[17] = f->type;
    memcpy(out + 18, &f->n, 8);
    memcpy(out + 26, &f->n_border, 8);
    memcpy(out + 34, f->length, 8);
    memcpy(out + 42, f->place, 16);
    memcpy(out + 58, f->border, 24);
    put("hand.idx", out, bytes);
    put("hand.bin", "\1\0\2\0\3\0\4\0", 8);
    return pst_indexed_open("hand", x);
}

enum { WHOLE = 82 };

/* Sequences may lie anywhere in the file, in any order. */
static void sequences_in_any_order(void **state) {
    pst_indexed *x;
    int32_t token[3];
    (void)state;
    assert_int_equal(open_index(&good, WHOLE, &x), PST_OK);
    assert_int_equal(pst_indexed_read(x, 0, 3, token), PST_OK);
    assert_true(token[0] == 3 && token[1] == 4 && token[2] == 1);
    pst_indexed_close(x);
    index_file f = good;
    f.type = PST_INDEXED_INT8;
    f.length[0] = 4;
    assert_int_equal(open_index(&f, WHOLE, &x), PST_OK);
    assert_int_equal(pst_indexed_tokens(x), 5);
    pst_indexed_close(x);
}

static void expect(index_file f, size_t bytes, const char *message) {
    pst_indexed *x = NULL;
    assert_int_equal(open_index(&f, bytes, &x), PST_EINPUT);
    if (!strstr(pst_error(), message) || strncmp(pst_error(), "hand.idx: ", 10))
        fail_msg("%s", pst_error());
    assert_null(x);
}

static void wrong_numbers_are_refused(void **state) {
    (void)state;
    for (size_t bytes = 0; bytes < 34; bytes++) expect(good, bytes, "not an index");
    for (size_t bytes = 34; bytes < WHOLE; bytes++) expect(good, bytes, "ends within its tables");
    static const uint64_t huge[] = {7,          UINT64_MAX,     INT64_MAX,
                                    1ull << 63, UINT64_MAX / 4, UINT64_MAX / 12 + 2};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        index_file f = good;
        f.n = huge[i];
        expect(f, WHOLE, "ends within its tables");
        f = good;
        f.n_border = huge[i];
        expect(f, WHOLE, "ends within its tables");
        f = good;
        f.place[1] = huge[i];
        expect(f, WHOLE, "ends beyond the .bin file");
    }
    index_file f = good;
    f.length[1] = -1;
    expect(f, WHOLE, "sequence 1 has -1 tokens");
    f = good;
    f.length[1] = INT32_MAX;
    expect(f, WHOLE, "sequence 1, 4294967294 bytes at byte 0, ends beyond the .bin file");
    f = good;
    f.border[1] = 3;
    expect(f, WHOLE, "document border 1 is at sequence 3; expected 0 to 2");
    f = good;
    f.version = 2;
    expect(f, WHOLE, "version 2 of the format; expected 1");
    f = good;
    f.type = PST_INDEXED_FLOAT32;
    expect(f, WHOLE, "type 7 is not one of tokens");
}

static pst_tokens *open_paths(uint32_t vocabulary, char **path, uint32_t n) {
    pst_tokens *t;
    if (pst_tokens_open(path, n, vocabulary, &t) != PST_OK) fail_msg("%s", pst_error());
    return t;
}

static void write_shard(const char *name, uint32_t magic, uint32_t version, uint32_t says,
                        int wide) {
    uint32_t header[256] = {magic, version, says};
    uint8_t file[1024 + 12];
    static const uint16_t narrow[] = {7, 8, 9};
    static const uint32_t words[] = {70000, 70001, 70002};
    memcpy(file, header, 1024);
    memcpy(file + 1024, wide ? (const void *)words : narrow, wide ? 12 : 6);
    put(name, file, 1024 + (wide ? 12 : 6));
}

/* Files of all formats, one after another. */
static void formats_are_joined(void **state) {
    static const uint16_t plain[] = {11, 12};
    int32_t token[13];
    (void)state;
    write_set("set", 100, 1);
    write_shard("gpt2.bin", 20240520, 1, 3, 0);
    write_shard("llama3.bin", 20240801, 7, 3, 1);
    put("train.bin", plain, sizeof plain);
    char *paths[] = {"set", "gpt2.bin", "llama3.bin", "train.bin"};
    pst_tokens *t = open_paths(0, paths, 4);
    static const int32_t want[] = {1, 2, 3, 4, 5, 7, 8, 9, 70000, 70001, 70002, 11, 12};
    assert_int_equal(pst_tokens_count(t), 13);
    for (uint64_t at = 0; at < 13; at++)
        for (uint64_t n = 0; n <= 13 - at; n++) {
            assert_int_equal(pst_tokens_read(t, at, n, token), PST_OK);
            assert_memory_equal(token, want + at, n * sizeof *token);
        }
    assert_int_equal(pst_tokens_read(t, 13, 1, token), PST_EINTERNAL);
    pst_tokens_close(t);
    for (int i = 0; i < 3; i++) { /* three names of the same */
        char *same[] = {"set", "set.bin", "set.idx"};
        t = open_paths(0, same + i, 1);
        assert_int_equal(pst_tokens_count(t), 5);
        pst_tokens_close(t);
    }
}

/* A pattern may match the .bin files, the .idx files, both, or prefixes: each set is read once. */
static void patterns_stand_for_data_sets(void **state) {
    static const char *const both[] = {"c*.idx", "c*.bin", "c*", "c?", "c[12]"};
    int32_t token[10];
    (void)state;
    write_set("c1", 100, 1);
    write_set("c2", 100, 11);
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        char path[8];
        char *paths[] = {strcpy(path, both[i])};
        pst_tokens *t = open_paths(0, paths, 1);
        if (pst_tokens_count(t) != 10) fail_msg("%s: %d tokens", path, (int)pst_tokens_count(t));
        assert_int_equal(pst_tokens_read(t, 0, 10, token), PST_OK);
        for (int k = 0; k < 10; k++) assert_int_equal(token[k], 1 + k % 5 + 10 * (k / 5));
        pst_tokens_close(t);
    }
}

static uint64_t hash_of(char *path) {
    pst_tokens *t = open_paths(0, &path, 1);
    uint64_t hash = pst_tokens_hash(t);
    pst_tokens_close(t);
    return hash;
}

static void change(const char *name, long at) {
    FILE *f = fopen(name, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int was = getc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    putc(was ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

/* The hash is of the contents: a copy under another name has the same. */
static void hash_of_contents(void **state) {
    enum { LARGE = 40 << 20 };
    (void)state;
    write_set("one", 100, 1);
    uint64_t was = hash_of("one");
    assert_true(hash_of("one.idx") == was);
    for (long at = 0; at < 10; at++) { /* every byte of the tokens */
        change("one.bin", at);
        assert_true(hash_of("one") != was);
        change("one.bin", at);
    }
    write_set("two", 100, 1);
    assert_true(hash_of("two") == was);
    put("large.bin", "ab", 2);
    assert_int_equal(truncate("large.bin", LARGE), 0);
    was = hash_of("large.bin");
    static const long seen[] = {0, 65535, LARGE - 65536, LARGE - 1, (LARGE - 65536) / 255 * 128};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        change("large.bin", seen[i]);
        assert_true(hash_of("large.bin") != was);
        change("large.bin", seen[i]);
    }
    assert_true(hash_of("large.bin") == was);
    assert_int_equal(truncate("large.bin", LARGE - 2), 0);
    assert_true(hash_of("large.bin") != was);
    unlink("large.bin");
}

static void refuses(char *path, const char *message) {
    pst_tokens *t = NULL;
    assert_int_equal(pst_tokens_open(&path, 1, 0, &t), PST_EINPUT);
    if (!strstr(pst_error(), message)) fail_msg("%s", pst_error());
    assert_null(t);
}

static void wrong_files_are_refused(void **state) {
    int32_t token[5];
    (void)state;
    write_shard("s.bin", 20240520, 2, 3, 0);
    refuses("s.bin", "s.bin: version 2 of llm.c's format; expected 1");
    write_shard("s.bin", 20240520, 1, 0x7fffffff, 0);
    refuses("s.bin", "s.bin: the header says 2147483647 tokens, but the file has 3");
    put("odd.bin", "abc", 3);
    refuses("odd.bin", "odd.bin: 3 bytes are not a whole number of tokens of 2 bytes");
    refuses("missing", "cannot read missing");
    refuses("missing*", "data.paths: no file matches 'missing*'");
    refuses("missing*.idx", "data.paths: no file matches 'missing*.idx'");
    write_set("set", 100, 1);
    unlink("set.bin");
    refuses("set", "set.bin: No such file");
    write_set("set", 100, 1);
    char *path = "set";
    pst_tokens *t = open_paths(4, &path, 1);
    assert_int_equal(pst_tokens_read(t, 0, 3, token), PST_OK);
    assert_int_equal(pst_tokens_read(t, 0, 5, token), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "data: set: token 3 is 4, but model.vocabulary is 4"));
    pst_tokens_close(t);
}

/* Of two files, the larger with more tokens than are looked at: places that are, and how many. */
static void files_are_looked_at(void **state) {
    enum { MANY = 3 * PST_TOKENS_SEEN, FEW = 20001, SHARE = PST_TOKENS_SEEN / 2 };
    static uint16_t many[MANY], few[FEW];
    static const long seen[] = {0, MANY - 1, MANY, MANY + FEW / 2, MANY + FEW - 1};
    char *paths[] = {"many.bin", "few.bin"};
    pst_tokens_seen all;
    (void)state;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        uint16_t *at = seen[i] < MANY ? &many[seen[i]] : &few[seen[i] - MANY];
        for (int value = 6; value <= 7; value++) {
            *at = (uint16_t)value;
            put("many.bin", many, sizeof many);
            put("few.bin", few, sizeof few);
            pst_tokens *t = open_paths(7, paths, 2);
            assert_int_equal(pst_tokens_look(t, 6, &all), value == 6 ? PST_OK : PST_EINPUT);
            if (value == 6) assert_true(all.found && all.n == SHARE + FEW);
            else assert_non_null(strstr(pst_error(), "is 7, but model.vocabulary is 7"));
            assert_int_equal(pst_tokens_documents(t), 0);
            pst_tokens_close(t);
        }
        *at = 0;
    }
    put("many.bin", many, sizeof many);
    put("few.bin", few, sizeof few);
    pst_tokens *t = open_paths(7, paths, 2);
    assert_int_equal(pst_tokens_look(t, 6, &all), PST_OK);
    assert_false(all.found);
    pst_tokens_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_and_read),
                                       cmocka_unit_test(sequences_in_any_order),
                                       cmocka_unit_test(wrong_numbers_are_refused),
                                       cmocka_unit_test(formats_are_joined),
                                       cmocka_unit_test(patterns_stand_for_data_sets),
                                       cmocka_unit_test(hash_of_contents),
                                       cmocka_unit_test(wrong_files_are_refused),
                                       cmocka_unit_test(files_are_looked_at)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
