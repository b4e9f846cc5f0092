/* See reference.h. The file: a pst_reference_head, the settings as text (with a terminating zero,
 * padded to 8 bytes), then a file of records as record.h describes it. */
#include "verify/reference.h"
#include "base/file.h"
#include "kernels/kernel.h"
#include "kernels/version.h"
#include "penstock/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, STORED = 64, MOST_BYTES = 1 << 30, MOST_TEXT = 1 << 16, DATA_LINE = 48 };
#define MAGIC "penstock verify"

typedef struct {
    char magic[16];
    uint32_t version, text; /* VERSION; bytes of the text, with zero and padding */
    uint64_t records;
    char made_by[PST_REFERENCE_MADE_BY];
} reference_head;

static void print_made_by(uint32_t parts, char made_by[PST_REFERENCE_MADE_BY]) {
    snprintf(made_by, PST_REFERENCE_MADE_BY,
             "penstock %s, %s, oneDNN %s, gradients summed in %u part%s", pst_version(),
             pst_isa_name(pst_cpu_isa()), pst_kernels_onednn_version(), parts,
             parts == 1 ? "" : "s");
}

/* --- settings --------------------------------------------------------------------------------- */

/* Whether a line "section.key: value" says what is computed. */
static int decides(const char *line) {
    static const char *const other[] = {"train.hang", "train.log_every", "train.non_finite"},
                             *const more[] = {"data.kind", "data.tokenizer",
                                              "parallel.reproducible.tensor"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (!strncmp(line, more[i], strlen(more[i]))) return 1;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (!strncmp(line, other[i], strlen(other[i]))) return 0;
    return !strncmp(line, "model.", 6) || !strncmp(line, "train.", 6);
}

/* The settings that decide and the hash of the data, one per line, with padding; the caller frees
 * the text. */
static pst_status print_settings(const pst_reference_of *of, char **text, size_t *bytes) {
    char *all = NULL, *out = calloc(1, MOST_TEXT);
    size_t n = 0, used = 0;
    FILE *f = open_memstream(&all, &n);
    if (f) pst_config_print_paths(of->config, f);
    int good = f && fclose(f) == 0 && out;
    for (char *line = all, *end; good && (end = strchr(line, '\n')); line = end + 1) {
        size_t length = (size_t)(end + 1 - line);
        if (!decides(line) || used + length + DATA_LINE + 16 > MOST_TEXT) continue;
        memcpy(out + used, line, length);
        used += length;
    }
    free(all);
    if (good) {
        used +=
            (size_t)snprintf(out + used, DATA_LINE, "hash of the data: %016" PRIx64 "\n", of->data);
        *text = out;
        *bytes = (used + 8) / 8 * 8;
        return PST_OK;
    }
    free(out);
    return pst_fail(PST_ENOMEM, "no memory for the settings of a run");
}

/* Whether verify has set the key of a line "section.key: value". */
static int is_shrunk(const pst_shape_keys *small, const char *line) {
    size_t n = strcspn(line, ":");
    for (uint32_t i = 0; i < small->n; i++)
        if (!strncmp(small->text[i], line, n) && small->text[i][n] == '=') return 1;
    return 0;
}

/* EINPUT names the first line that differs. */
static pst_status compare_settings(const char *path, const char *there, const char *here,
                                   const pst_shape_keys *small) {
    while (*there || *here) {
        size_t n = strcspn(there, "\n"), m = strcspn(here, "\n");
        if (n != m || strncmp(there, here, n))
            return pst_fail(
                PST_EINPUT, "%s is from a different run: it has %.*s, this run has %.*s%s", path,
                (int)n, there, (int)m, here, is_shrunk(small, here) ? " (after shrinking)" : "");
        there += n + (there[n] != 0);
        here += m + (here[m] != 0);
    }
    return PST_OK;
}

/* --- saving ----------------------------------------------------------------------------------- */

static int is_kept(const pst_record *r) {
    if (r->kind == PST_RECORD_READ || r->kind == PST_RECORD_PARAM) return 0;
    return r->micro == PST_NONE || r->micro == 0;
}

static int write_item(const pst_recorded *item, FILE *f) {
    pst_record r = *item->record;
    uint64_t size = pst_dtype_bytes((pst_dtype)r.dtype), step = (r.stored + STORED - 1) / STORED;
    uint8_t kept[(STORED + 2) * sizeof(double)] = {0};
    uint32_t n = 0;
    r.stride *= step ? step : 1;
    for (uint32_t k = 0; k < r.stored && n < STORED; k++)
        if (pst_recorded_index(item, k) % r.stride == 0)
            memcpy(kept + n++ * size, item->stored + k * size, size);
    r.stored = n;
    size_t bytes = (n * size + 7) / 8 * 8;
    return fwrite(&r, sizeof r, 1, f) == 1 && (!bytes || fwrite(kept, bytes, 1, f) == 1);
}

typedef struct {
    const pst_reference_of *of;
    const pst_recording *recording;
} saving;

static pst_status print_file(const void *what, FILE *f) {
    const saving *s = what;
    reference_head head = {.magic = MAGIC, .version = VERSION};
    for (size_t i = 0; i < s->recording->n; i++)
        head.records += (uint64_t)is_kept(s->recording->item[i].record);
    char *text;
    size_t bytes;
    PST_TRY(print_settings(s->of, &text, &bytes));
    head.text = (uint32_t)bytes;
    print_made_by(s->of->parts, head.made_by);
    int good = fwrite(&head, sizeof head, 1, f) == 1 && fwrite(text, bytes, 1, f) == 1 &&
               fwrite(s->recording->file[0].head, sizeof *s->recording->file[0].head, 1, f) == 1;
    free(text);
    for (size_t i = 0; good && i < s->recording->n; i++)
        if (is_kept(s->recording->item[i].record)) good = write_item(s->recording->item + i, f);
    return good ? PST_OK : pst_fail(PST_ENOMEM, "cannot write the reference file");
}

pst_status pst_reference_save(const char *path, const pst_reference_of *of,
                              const pst_recording *recording) {
    const saving s = {of, recording};
    return pst_file_replace(path, print_file, &s);
}

/* --- loading ---------------------------------------------------------------------------------- */

static pst_status wrong(const char *path, const char *why) {
    return pst_fail(PST_EINPUT, "%s %s; expected a file that penstock verify --save has written",
                    path, why);
}

/* Checks the head; *text: the settings; *records: where the records begin. */
static pst_status check_head(const char *path, const char *bytes, size_t n, const char **text,
                             size_t *records) {
    const reference_head *head = (const void *)bytes;
    if (n < sizeof *head || memcmp(head->magic, MAGIC, sizeof MAGIC))
        return wrong(path, "is not a reference file");
    if (head->version != VERSION) return wrong(path, "has the format of a different version");
    if (head->text < 8 || head->text % 8 || head->text > n - sizeof *head ||
        bytes[sizeof *head + head->text - 1] || !memchr(head->made_by, 0, sizeof head->made_by))
        return wrong(path, "is damaged");
    *text = bytes + sizeof *head;
    *records = sizeof *head + head->text;
    return PST_OK;
}

static pst_status check_run(const char *path, const char *text, const pst_reference_of *of) {
    char *here;
    size_t bytes;
    PST_TRY(print_settings(of, &here, &bytes));
    pst_status status = compare_settings(path, text, here, of->small);
    free(here);
    return status;
}

pst_status pst_reference_load(const char *path, const pst_reference_of *of, pst_reference *out) {
    char *bytes, here[PST_REFERENCE_MADE_BY];
    const char *text = "";
    size_t n, records = 0;
    pst_recording *r = NULL;
    PST_TRY(pst_file_read(path, MOST_BYTES, &bytes, &n));
    pst_status status = check_head(path, bytes, n, &text, &records);
    if (status == PST_OK) status = check_run(path, text, of);
    if (status == PST_OK) status = pst_recording_parse(bytes + records, n - records, path, &r);
    if (status != PST_OK) {
        free(bytes);
        return status;
    }
    const reference_head *head = (const void *)bytes;
    print_made_by(of->parts, here);
    r->owned = bytes;
    if (r->n != head->records) status = wrong(path, "is damaged");
    else if (r->file[0].head->graph != of->graph)
        status = pst_fail(PST_EINPUT, "%s is from a different model", path);
    if (status != PST_OK) {
        pst_recording_close(r);
        return status;
    }
    *out = (pst_reference){.recording = r, .same = !strcmp(here, head->made_by)};
    memcpy(out->made_by, head->made_by, sizeof out->made_by);
    return PST_OK;
}
