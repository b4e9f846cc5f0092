/* Any bytes as JSON Lines, also compressed: an error that names the file, or as many documents as
 * lines that are not left out; and each line as a conversation. */
#include "data/chat_template.h"
#include "data/json_lines.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static pst_status add(void *to, const int32_t *id, size_t n) {
    (void)to;
    for (size_t i = 0; i < n; i++) expect(id[i] >= 0 && id[i] < 256);
    return PST_OK;
}

static pst_status end(void *to) {
    ++*(uint64_t *)to;
    return PST_OK;
}

static pst_status converse(const void *arg, pst_encoder *e, char *line, size_t n,
                           const pst_documents *out, uint64_t *skipped) {
    static const char *const names[] = {"chatml", "llama3", "qwen"};
    (void)arg;
    (void)out;
    (void)skipped;
    json_error_t error;
    json_t *root = pst_json_lines_parse(line, n, &error);
    for (size_t i = 0; i < 3; i++) {
        const pst_chat_template *c;
        pst_ids ids = {0};
        int any = 0;
        expect(pst_chat_template_find(names[i], &c) == PST_OK);
        pst_status status = pst_chat_encode(c, e, root, &ids);
        for (size_t k = 0; k < ids.n; k++) {
            expect(ids.id[k] >= 0 && ids.id[k] < 512);
            any |= ids.id[k] & 1;
        }
        expect(status != PST_OK || any);
        pst_ids_free(&ids);
    }
    json_decref(root);
    return PST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    uint64_t strict = 0, lenient = 0, skipped = 0, none = 0;
    pst_tokenizer *t;
    pst_encoder *e;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    expect(pst_tokenizer_open("byte", &t) == PST_OK);
    expect(pst_encoder_open(t, 0, &e) == PST_OK);
    const pst_documents first = {add, end, &strict}, second = {add, end, &lenient};
    const pst_json_lines stop = {"text", 0}, skip = {"text", 1};
    const pst_line_form strictly = pst_json_lines_form(&stop),
                        leniently = pst_json_lines_form(&skip),
                        conversations = {.encode = converse};
    pst_status status = pst_lines_encode(e, path, &strictly, &first, &none);
    if (status != PST_OK) expect(strncmp(pst_error(), path, strlen(path)) == 0);
    pst_status again = pst_lines_encode(e, path, &leniently, &second, &skipped);
    expect(none == 0 && lenient >= strict);
    if (status == PST_OK) expect(again == PST_OK && lenient == strict && skipped == 0);
    pst_status lines = pst_lines_encode(e, path, &conversations, &second, &skipped);
    expect(again != PST_OK || lines == PST_OK);
    pst_encoder_close(e);
    pst_tokenizer_close(t);
    close(fd);
    return 0;
}
