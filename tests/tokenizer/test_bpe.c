/* Byte-level BPE: learned from text, written, read again in three formats with the same ids;
 * nothing is lost; parts of a text have the ids of the whole. */
#include "base/file.h"
#include "base/folder.h"
#include "base/rng.h"
#include "tokenizer/list.h"
#include "tokenizer/parts.h"
#include "tokenizer/stream.h"
#include "tokenizer/train.h"
#include "tokenizer/unicode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "tokenizer/expect.h"

static const char text[] =
    "The sea, the sea! They're in it; we've seen 1234 ships, and he'll see 567 more.\n\n"
    "  Thus the ship that the seer saw sank there,    and then there was nothing there.\n"
    "Na\xc3\xafve caf\xc3\xa9s \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\n";

static void put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static pst_tokenizer *open_it(const char *path) {
    pst_tokenizer *t;
    if (pst_tokenizer_open(path, &t) != PST_OK) fail_msg("%s", pst_error());
    return t;
}

static pst_ids encode(const pst_tokenizer *t, const char *what, size_t n, int special) {
    pst_encoder *e;
    pst_ids ids = {0};
    assert_int_equal(pst_encoder_open(t, special, &e), PST_OK);
    if (pst_encode(e, what, n, 1, &ids) != PST_OK) fail_msg("%s", pst_error());
    pst_encoder_close(e);
    return ids;
}

static void learn(uint32_t vocabulary) {
    pst_bpe_training *t;
    uint64_t bytes;
    put("text", text, sizeof text - 1);
    mkdir("json", 0777);
    assert_int_equal(pst_bpe_training_open(&t), PST_OK);
    assert_int_equal(pst_bpe_training_read(t, "text", &bytes), PST_OK);
    assert_int_equal(bytes, sizeof text - 1);
    assert_int_equal(pst_bpe_training_learn(t, vocabulary), PST_OK);
    assert_int_equal(pst_file_replace("json/tokenizer.json", pst_bpe_training_print, t), PST_OK);
    pst_bpe_training_close(t);
}

/* The tokens of a tokenizer as vocab.json and merges.txt, and as a .tiktoken file. */
static void write_others(const pst_tokenizer *t) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    FILE *ranks = fopen("gpt2.tiktoken", "w");
    for (uint32_t id = 0; id + 1 < t->size; id++) {
        uint32_t n;
        const uint8_t *at = pst_vocabulary_text(&t->vocabulary, id, &n);
        for (uint32_t i = 0; i < n; i += 3) {
            uint32_t left = n - i, bits = (uint32_t)at[i] << 16;
            if (left > 1) bits |= (uint32_t)at[i + 1] << 8;
            if (left > 2) bits |= at[i + 2];
            fprintf(ranks, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
                    left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '=');
        }
        fprintf(ranks, " %u\n", id);
    }
    assert_int_equal(fclose(ranks), 0);
    mkdir("pair", 0777);
    assert_int_equal(
        system("sed -n 's/^      \\(\".*\": [0-9]*,\\{0,1\\}\\)$/\\1/p' json/tokenizer.json |"
               " sed '1s/^/{/; $s/$/}/' >pair/vocab.json; (echo '#version: 0.2'; sed -n "
               "'s/^      \\[\"\\(.*\\)\", \"\\(.*\\)\"\\],\\{0,1\\}$/\\1 \\2/p' "
               "json/tokenizer.json) >pair/merges.txt"),
        0);
}

static void formats_agree(void **state) {
    (void)state;
    learn(300);
    pst_tokenizer *t = open_it("json");
    assert_int_equal(pst_tokenizer_size(t), 300);
    write_others(t);
    pst_tokenizer *pair = open_it("pair"), *ranks = open_it("gpt2.tiktoken");
    pst_ids a = encode(t, text, sizeof text - 1, 0), b = encode(pair, text, sizeof text - 1, 0),
            c = encode(ranks, text, sizeof text - 1, 0);
    assert_true(a.n < sizeof text / 2 && a.n == b.n && a.n == c.n);
    assert_memory_equal(a.id, b.id, a.n * sizeof *a.id);
    assert_memory_equal(a.id, c.id, a.n * sizeof *a.id);
    /* other merges of the same tokens */
    assert_int_equal(system("mkdir -p order && cp pair/vocab.json order && (head -n 1 "
                            "pair/merges.txt; sed 1d pair/merges.txt | tac) >order/merges.txt"),
                     0);
    pst_tokenizer *order = open_it("order");
    assert_true(pst_tokenizer_hash(order) != pst_tokenizer_hash(pair));
    pst_tokenizer_close(order);
    /* ranks allow more merges */
    assert_true(pst_tokenizer_hash(pair) != pst_tokenizer_hash(ranks));
    assert_true(pst_tokenizer_hash(t) != pst_tokenizer_hash(pair)); /* no <|endoftext|> there */
    pst_ids_free(&a);
    pst_ids_free(&b);
    pst_ids_free(&c);
    pst_tokenizer_close(t);
    pst_tokenizer_close(pair);
    pst_tokenizer_close(ranks);
}

static void special_tokens_if_asked_for(void **state) {
    static const char marked[] = "the<|endoftext|>the";
    int32_t end;
    (void)state;
    learn(300);
    pst_tokenizer *t = open_it("json/tokenizer.json");
    assert_int_equal(pst_tokenizer_special(t, "<|endoftext|>", &end), PST_OK);
    assert_true(end == 299 && pst_tokenizer_end(t) == 299);
    assert_int_equal(pst_tokenizer_special(t, "<|eot_id|>", &end), PST_EINPUT);
    pst_ids with = encode(t, marked, strlen(marked), 1),
            plain = encode(t, marked, strlen(marked), 0);
    assert_true(with.n % 2 && with.id[with.n / 2] == 299 && with.id[0] == with.id[with.n / 2 + 1]);
    assert_true(plain.n > with.n);
    for (size_t i = 0; i < plain.n; i++) assert_in_range(plain.id[i], 0, 298);
    pst_ids_free(&with);
    pst_ids_free(&plain);
    pst_tokenizer_close(t);
}

/* Random bytes, most of them not UTF-8, come back; long words too, which are merged with a heap. */
static void nothing_is_lost(void **state) {
    enum { MOST = 3000 };
    uint32_t word[4];
    char bytes[MOST];
    (void)state;
    learn(320);
    pst_tokenizer *t = open_it("json");
    for (uint64_t trial = 0; trial < 60; trial++) {
        pst_rng_words(7, trial, UINT64_MAX, word);
        size_t n = word[0] % MOST;
        for (size_t i = 0; i < n; i++) {
            pst_rng_words(7, trial, i, word);
            bytes[i] = trial % 2 ? (char)word[0] : "the "[word[0] % 3];
        }
        pst_ids ids = encode(t, bytes, n, 0);
        pst_text back = {0};
        assert_int_equal(pst_tokenizer_decode(t, ids.id, ids.n, 1, &back), PST_OK);
        assert_true(back.n == n && (!n || !memcmp(back.byte, bytes, n)));
        pst_text_free(&back);
        pst_ids_free(&ids);
    }
    assert_int_equal(pst_tokenizer_decode(t, (int32_t[]){320}, 1, 1, &(pst_text){0}), PST_EINPUT);
    pst_tokenizer_close(t);
}

/* The heap merges in the order of the definition: lowest rank, then leftmost, one at a time. */
static void long_words_as_defined(void **state) {
    enum { MOST = 300, SYMBOLS = 4 };
    uint32_t word[4];
    pst_pairs pairs = {0};
    pst_merge_memory memory = {0};
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        pst_rng_words(11, 0, i, word);
        const pst_pair pair = {word[0] % (SYMBOLS + i), word[1] % (SYMBOLS + i), i, SYMBOLS + i};
        assert_int_equal(pst_pairs_add(&pairs, pair), PST_OK);
    }
    for (uint64_t trial = 0; trial < 200; trial++) {
        int32_t id[MOST], naive[MOST];
        pst_rng_words(11, 1 + trial, UINT64_MAX, word);
        size_t n = 1 + word[0] % (MOST - 1), left = n;
        for (size_t i = 0; i < n; i++) {
            pst_rng_words(11, 1 + trial, i, word);
            naive[i] = id[i] = (int32_t)(word[0] % SYMBOLS);
        }
        for (int merged = 1; merged;) {
            const pst_pair *best = NULL;
            size_t at = 0;
            for (size_t i = 0; i + 1 < left; i++)
                for (size_t k = 0; k < pairs.n_slot; k++) {
                    const pst_pair *p = &pairs.slot[k];
                    if (p->left != (uint32_t)naive[i] || p->right != (uint32_t)naive[i + 1])
                        continue;
                    if (!best || p->rank < best->rank) {
                        best = p;
                        at = i;
                    }
                }
            merged = best != NULL;
            if (!merged) continue;
            naive[at] = (int32_t)best->id;
            memmove(naive + at + 1, naive + at + 2, (left - at - 2) * sizeof *naive);
            left--;
        }
        assert_int_equal(pst_pairs_merge(&pairs, id, &n, &memory), PST_OK);
        assert_int_equal(n, left);
        assert_memory_equal(id, naive, n * sizeof *id);
    }
    pst_pairs_free(&pairs);
    pst_merge_memory_free(&memory);
}

static pst_status append(void *to, const int32_t *id, size_t n) {
    pst_ids *ids = to;
    PST_TRY(pst_ids_reserve(ids, n));
    memcpy(ids->id + ids->n, id, n * sizeof *id);
    ids->n += n;
    return PST_OK;
}

/* A file of several blocks, once with places to divide it and once without any. */
static void files_have_the_ids_of_their_text(void **state) {
    enum { REPEAT = 12000 };
    size_t n = sizeof text - 1;
    char *all = malloc(REPEAT * n);
    (void)state;
    learn(300);
    pst_tokenizer *t = open_it("json");
    for (int joined = 0; joined < 2; joined++) {
        for (size_t i = 0; i < REPEAT; i++) memcpy(all + i * n, text, n);
        for (size_t i = 0; joined && i < REPEAT * n; i++) all[i] = all[i] == '\n' ? '-' : all[i];
        put("long", all, REPEAT * n);
        pst_encoder *e;
        pst_ids whole = encode(t, all, REPEAT * n, 0), parts = {0};
        uint64_t bytes;
        assert_int_equal(pst_encoder_open(t, 0, &e), PST_OK);
        assert_int_equal(pst_encode_file(e, "long", append, &parts, &bytes), PST_OK);
        assert_true(bytes == REPEAT * n && parts.n == whole.n);
        assert_memory_equal(parts.id, whole.id, whole.n * sizeof *whole.id);
        pst_encoder_close(e);
        pst_ids_free(&whole);
        pst_ids_free(&parts);
    }
    free(all);
    pst_tokenizer_close(t);
}

/* n characters of Chinese, or of whole Chinese words, without anything between them. */
static size_t chinese(char *out, size_t n, int words) {
    uint8_t *to = (uint8_t *)out;
    uint32_t random[4];
    for (size_t i = 0; i < n; i++) {
        pst_rng_words(3, i, 0, random);
        uint32_t code = 0x4e00 + random[0] % 300;
        to += pst_unicode_encode(code, to);
        if (words && random[1] % 2) to += pst_unicode_encode(code + 1, to);
    }
    return (size_t)(to - (uint8_t *)out);
}

/* A word that is longer than what is read at once. */
static void words_are_divided(void **state) {
    enum { N = 60000 };
    char *made = malloc(8 * N);
    pst_bpe_training *t;
    uint64_t bytes;
    (void)state;
    size_t n = chinese(made, N, 1);
    put("text", made, n);
    assert_int_equal(pst_bpe_training_open(&t), PST_OK);
    for (size_t at = 0; at < 6000; at += 60) { /* words of that length: see training */
        put("text", made + at, 60);
        assert_int_equal(pst_bpe_training_read(t, "text", &bytes), PST_OK);
    }
    assert_int_equal(pst_bpe_training_learn(t, 600), PST_OK);
    mkdir("chinese", 0777);
    assert_int_equal(pst_file_replace("chinese/tokenizer.json", pst_bpe_training_print, t), PST_OK);
    pst_bpe_training_close(t);
    pst_tokenizer *tokenizer = open_it("chinese");
    expect_parts(tokenizer, made, n, 20000);
    memset(made, 'a', 50000); /* no token has two of them */
    assert_true(pst_tokenizer_cut(tokenizer, made, 50000) > 40000);
    memcpy(made + 20000, "<|endoftext|>", 13);
    size_t cut = pst_tokenizer_cut(tokenizer, made, 20013);
    assert_true(cut <= 20000); /* not within a special token */
    pst_tokenizer_close(tokenizer);
    free(made);
}

/* One word of 2 MB takes as long as many short ones: a merge that looked at all of it again and
 * again would take minutes. */
static void long_words_are_learned(void **state) {
    enum { N = 700000 };
    char *made = malloc(8 * N);
    pst_bpe_training *t;
    uint64_t bytes;
    (void)state;
    size_t n = chinese(made, N, 0);
    put("text", made, n);
    assert_int_equal(pst_bpe_training_open(&t), PST_OK);
    assert_int_equal(pst_bpe_training_read(t, "text", &bytes), PST_OK);
    assert_true(bytes == n && pst_bpe_training_words(t) > n / 1024);
    assert_int_equal(pst_bpe_training_learn(t, 500), PST_OK);
    pst_bpe_training_close(t);
    free(made);
}

/* Files that are wrong, and the message for each. */
static void messages(void **state) {
    static const struct {
        const char *name, *contents, *message;
    } cases[] = {
        {"a.json", "{", "a.json: line 1: "},
        {"a.json", "{}", "a.json: no \"model\""},
        {"a.json", "{\"model\": {\"type\": \"Unigram\"}}", "a model of type \"Unigram\" is not"},
        {"a.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
         "the token \"a\" has no id"},
        {"a.json",
         "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
         "two tokens have the id 0"},
        {"a.json",
         "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}",
         "merge 1, of \"a\" and \"b\": one of these"},
        {"a.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, \"merges\": []}}",
         "has the id 99999999; ids are below 16777216"},
        {"a.tiktoken", "IQ== 0\nI? 1\n", "a.tiktoken: line 2 is not a token in base64"},
        {"a.tiktoken", "IQ== 99999999999\n", "line 1 is not a token"},
        {"a.tiktoken", "", "a.tiktoken: the tokenizer has no tokens"},
        {"vocab.json", "{\"a\": 0}", "merges.txt is missing beside it"},
        {"vocab.txt", "a\nb\n", "vocab.txt: the vocabulary has no token [UNK]"},
        {"a.bin", "x", "a.bin: not the name of a tokenizer's file; expected tokenizer.json"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_tokenizer *t = NULL;
        put(cases[i].name, cases[i].contents, strlen(cases[i].contents));
        assert_int_equal(pst_tokenizer_open(cases[i].name, &t), PST_EINPUT);
        if (!strstr(pst_error(), cases[i].message)) fail_msg("%zu: %s", i, pst_error());
        assert_null(t);
        unlink(cases[i].name);
    }
    pst_tokenizer *t = NULL;
    assert_int_equal(pst_tokenizer_open("nowhere", &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "nowhere: no such file or folder; expected byte, or"));
    mkdir("empty", 0777);
    assert_int_equal(pst_tokenizer_open("empty", &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "empty: no tokenizer in this folder"));
}

/* Bytes of the list's texts, put together as its merges say, are the tokens. */
static void lists_tokens_and_merges(void **state) {
    (void)state;
    learn(300);
    pst_tokenizer *t = open_it("json"), *bytes = open_it("byte");
    /* a, aa, aaa: the last one is made in two ways */
    put("gpt2.tiktoken", "YQ== 0\nYWE= 1\nYWFh 2\n", 21);
    pst_tokenizer *ranks = open_it("gpt2.tiktoken");
    pst_token_list list;
    if (pst_token_list_make(t, &list) != PST_OK) fail_msg("%s", pst_error());
    assert_true(list.n == 300 && list.n_merge == 43 && list.unknown == -1);
    assert_string_equal(list.split, "gpt2");
    assert_string_equal(list.token[299], "<|endoftext|>");
    assert_int_equal(list.kind[299], PST_TOKEN_SPECIAL);
    assert_string_equal(list.token[t->byte_id[' ']], "\xc4\xa0");
    for (uint32_t i = 0; i < list.n_merge; i++) {
        char *blank = strchr(list.merge[i], ' ');
        memmove(blank, blank + 1, strlen(blank));
        assert_string_equal(list.merge[i], list.token[256 + i]); /* learned in this order */
    }
    pst_token_list_free(&list);
    assert_int_equal(pst_token_list_make(bytes, &list), PST_OK);
    assert_true(list.n == 256 && list.n_merge == 0);
    assert_string_equal(list.token[0], "\xc4\x80");
    pst_token_list_free(&list);
    assert_int_equal(pst_token_list_make(ranks, &list), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "use its tokenizer.json"));
    pst_tokenizer_close(t);
    pst_tokenizer_close(bytes);
    pst_tokenizer_close(ranks);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats_agree),
                                       cmocka_unit_test(special_tokens_if_asked_for),
                                       cmocka_unit_test(nothing_is_lost),
                                       cmocka_unit_test(long_words_as_defined),
                                       cmocka_unit_test(files_have_the_ids_of_their_text),
                                       cmocka_unit_test(words_are_divided),
                                       cmocka_unit_test(lists_tokens_and_merges),
                                       cmocka_unit_test(long_words_are_learned),
                                       cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
