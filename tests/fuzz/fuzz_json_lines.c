/* Any bytes as JSON Lines, also compressed: an error that names the file, or as many documents as
 * lines that are not left out. */
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
    pst_status status = pst_json_lines_encode(e, path, &(pst_json_lines){"text", 0}, &first, &none);
    if (status != PST_OK) expect(strncmp(pst_error(), path, strlen(path)) == 0);
    pst_status again =
        pst_json_lines_encode(e, path, &(pst_json_lines){"text", 1}, &second, &skipped);
    expect(none == 0 && lenient >= strict);
    if (status == PST_OK) expect(again == PST_OK && lenient == strict && skipped == 0);
    pst_encoder_close(e);
    pst_tokenizer_close(t);
    close(fd);
    return 0;
}
