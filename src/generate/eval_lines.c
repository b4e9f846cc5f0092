/* See eval.h: lines of a file, and their texts as tokens. */
#include "base/file.h"
#include "generate/eval.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 /* bytes of a file */ };

static int is_blank(const char *line, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t') return 0;
    return 1;
}

typedef struct {
    const char *file;
    uint64_t limit, used;
    pst_status (*each)(void *arg, char *line, size_t n);
    void *arg;
} lines;

static pst_status split(lines *l, char *text, size_t bytes) {
    uint64_t number = 1;
    for (char *at = text, *end = text + bytes; at < end; number++) {
        char *next = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((next ? next : end) - at);
        if (n && at[n - 1] == '\r') n--;
        if (!is_blank(at, n)) {
            pst_status status = l->each(l->arg, at, n);
            if (status != PST_OK)
                return pst_fail_in(status, "%s, line %llu", l->file, (unsigned long long)number);
            if (++l->used == l->limit) return PST_OK;
        }
        at = next ? next + 1 : end;
    }
    return l->used ? PST_OK : pst_fail(PST_EINPUT, "%s has no lines", l->file);
}

pst_status pst_eval_lines(const char *file, uint64_t limit,
                          pst_status (*each)(void *arg, char *line, size_t n), void *arg) {
    char *text;
    size_t bytes;
    PST_TRY(pst_file_read(file, MOST, &text, &bytes));
    lines l = {.file = file, .limit = limit, .each = each, .arg = arg};
    pst_status status = split(&l, text, bytes);
    free(text);
    return status;
}

pst_status pst_eval_encode(pst_encoder *e, const char *text, size_t n, int first,
                           uint32_t vocabulary, pst_ids *ids) {
    size_t from = ids->n;
    PST_TRY(pst_encode(e, text, n, first, ids));
    for (size_t i = from; i < ids->n; i++)
        if ((uint32_t)ids->id[i] >= vocabulary)
            return pst_fail(PST_EINPUT, "token %d is not among the model's %u tokens", ids->id[i],
                            vocabulary);
    return PST_OK;
}
