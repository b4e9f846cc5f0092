/* Any bytes as a tokenizer's file, whose name is the first line: an error that names the file, or a
 * tokenizer that encodes and decodes. A line "---" begins a second file, merges.txt. */
#include "tokenizer/parts.h"
#include "fuzz/fuzz_folder.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"tokenizer.json", "vocab.json", "a.tiktoken",
                                    "vocab.txt",      "a.model",    "merges.txt"};
enum { N_NAME = sizeof names / sizeof *names, MERGES = N_NAME - 1 };

/* Ids below the size; BPE without an unknown token keeps every byte. */
static void exercise(const pst_tokenizer *t, int special) {
    static const char text[] =
        "ab the\n\nIt's a 12345 \xc3\xa9\xff\xf0\x9f\x98\x80 [UNK] <|endoftext|>";
    pst_encoder *e;
    pst_ids ids = {0};
    pst_text back = {0};
    expect(pst_encoder_open(t, special, &e) == PST_OK);
    if (pst_encode(e, text, sizeof text - 1, 1, &ids) == PST_OK) {
        for (size_t i = 0; i < ids.n; i++)
            expect(ids.id[i] >= 0 && (uint32_t)ids.id[i] < pst_tokenizer_size(t));
        expect(pst_tokenizer_decode(t, ids.id, ids.n, 1, &back) == PST_OK);
        int lossless = t->row == &pst_tokenizer_bpe && t->unknown < 0 && !t->compose && !t->prefix;
        if (lossless && !special)
            expect(back.n == sizeof text - 1 && !memcmp(back.byte, text, back.n));
    }
    pst_encoder_close(e);
    pst_ids_free(&ids);
    pst_text_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    pst_tokenizer *t = NULL;
    const uint8_t *line = memchr(data, '\n', size);
    size_t name = 0;
    while (name < MERGES && (!line || strlen(names[name]) != (size_t)(line - data) ||
                             memcmp(names[name], data, strlen(names[name]))))
        name++;
    if (name == MERGES) return 0;
    const uint8_t *body = line + 1;
    size_t n = size - (size_t)(body - data);
    const uint8_t *second = memmem(body, n, "\n---\n", 5);
    size_t first = second ? (size_t)(second - body) : n;
    put(names[name], body, first);
    put("merges.txt", second ? second + 5 : body, second ? n - first - 5 : 0);
    path_of(names[name], path);
    if (pst_tokenizer_open(path, &t) != PST_OK) {
        expect(t == NULL && strncmp(pst_error(), folder, strlen(folder)) == 0);
        return 0;
    }
    exercise(t, 0);
    exercise(t, 1);
    pst_tokenizer_close(t);
    return 0;
}
