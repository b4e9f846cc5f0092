/* Any bytes as the index of an indexed data set (its .bin has 64 bytes), and as a shard of llm.c or
 * nanoGPT's file: an error that names the file, or tokens that can all be read. */
#include "data/indexed.h"
#include "data/tokens.h"
#include "fuzz/fuzz_folder.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BIN_BYTES = 64 };

/* Empty sequences at most double the memory; the tokens of an index may overlap. */
static void read_all(const char *name) {
    enum { PIECE = 100 };
    char path[128], *one = path;
    pst_tokens *t = NULL;
    int32_t token[PIECE];
    path_of(name, path);
    if (pst_tokens_open(&one, 1, 1000, &t) != PST_OK) {
        expect(t == NULL && strstr(pst_error(), folder) != NULL);
        return;
    }
    uint64_t n = pst_tokens_count(t), most = n < 1000 ? n : 1000;
    for (uint64_t at = 0; at < most; at += PIECE) {
        uint64_t now = most - at < PIECE ? most - at : PIECE;
        if (pst_tokens_read(t, at, now, token) != PST_OK) break;
        for (uint64_t i = 0; i < now; i++) expect(token[i] >= 0 && token[i] < 1000);
    }
    expect(pst_tokens_read(t, n, 1, token) != PST_OK);
    pst_tokens_close(t);
}

static void documents(void) {
    char path[128];
    pst_indexed *x = NULL;
    path_of("set", path);
    if (pst_indexed_open(path, &x) != PST_OK) return;
    uint64_t n = pst_indexed_documents(x), before = 0;
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t at = pst_indexed_document(x, i);
        expect(at >= before && at <= pst_indexed_tokens(x));
        before = at;
    }
    pst_indexed_close(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t bin[BIN_BYTES];
    for (int i = 0; i < BIN_BYTES; i++) bin[i] = (uint8_t)i;
    put("set.idx", data, size);
    put("set.bin", bin, sizeof bin);
    put("shard.bin", data, size);
    read_all("set");
    read_all("shard.bin");
    documents();
    return 0;
}
