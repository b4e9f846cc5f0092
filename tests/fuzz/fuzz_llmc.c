/* Any bytes as a GPT-2 checkpoint of llm.c: an error that names the file, or sizes that a model can
 * have and that fill the file. */
#include "prepare/llmc.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_llmc h = {0};
    if (pst_llmc_parse(data, size, size, "fuzz", &h) != PST_OK) {
        expect(h.layers == 0 && strncmp(pst_error(), "fuzz", 4) == 0);
        return 0;
    }
    expect(h.layers > 0 && h.heads > 0 && h.channels % h.heads == 0 && h.context > 0);
    expect(h.vocabulary > 0 && h.vocabulary <= h.rows);
    expect(pst_llmc_elements(&h) * pst_dtype_bytes(h.type) + PST_LLMC_HEADER == size);
    return 0;
}
