/* The key of an encoding: see encode.h. */
#include "base/hash.h"
#include "data/encode.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1 /* of the way in which text becomes tokens */, BLOCK = 1 << 20 };

static pst_status hash_file(pst_hasher *h, const pst_file *f, char *block) {
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0) {
        n = read(fd, block, BLOCK);
        if (n < 0 && errno == EINTR) n = 1;
        else if (n > 0) pst_hasher_add(h, block, (size_t)n);
    }
    pst_status status =
        n < 0 ? pst_fail(pst_status_of_errno(errno), "cannot read %s: %s", f->path, strerror(errno))
              : PST_OK;
    if (fd >= 0) close(fd);
    pst_hasher_add(h, &f->bytes, sizeof f->bytes); /* where the file ends */
    return status;
}

pst_status pst_encode_key(const pst_encode_options *o, uint64_t *key) {
    const uint64_t first[] = {VERSION, pst_tokenizer_hash(o->tokenizer)};
    const int64_t options[] = {o->special, o->end};
    int usual = !o->special && o->end == pst_tokenizer_end(o->tokenizer);
    const pst_encode_form *form = o->form;
    int lines = !form->all && o->lines.field && *o->lines.field;
    pst_hasher *h = pst_hasher_open();
    char *block = malloc(BLOCK);
    pst_status status = h && block ? PST_OK : pst_no_memory("to read text");
    if (status == PST_OK) pst_hasher_add(h, first, sizeof first);
    if (status == PST_OK && !usual) pst_hasher_add(h, options, sizeof options);
    if (status == PST_OK && *form->name) pst_hasher_add(h, form->name, strlen(form->name) + 1);
    for (uint32_t i = 0; status == PST_OK && i < o->files->n; i++) {
        if (lines && pst_json_lines_is(o->files->file[i].path)) {
            pst_hasher_add(h, o->lines.field, strlen(o->lines.field) + 1);
            pst_hasher_add(h, &o->lines.skip, sizeof o->lines.skip);
        }
        status = hash_file(h, &o->files->file[i], block);
    }
    if (status == PST_OK) *key = pst_hasher_value(h);
    if (h) pst_hasher_close(h);
    free(block);
    return status;
}
