/* See labelled.h. */
#include "data/labelled.h"
#include "base/grow.h"
#include "base/plural.h"
#include "data/csv.h"
#include "data/files.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LABELS = 1 << 20 };

/* --- labels ----------------------------------------------------------------------------------- */

void pst_labels_free(pst_labels *labels) {
    for (uint32_t i = 0; labels->name && i < labels->n; i++) free(labels->name[i]);
    free(labels->name);
    *labels = (pst_labels){0};
}

/* -1: the text is no number of a label. */
static int32_t number_of(const char *text) {
    int32_t value = 0;
    if (!*text) return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value >= MOST_LABELS) return -1;
        value = 10 * value + (*text - '0');
    }
    return value < MOST_LABELS ? value : -1;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* EINPUT: two are equal. order: [n], scratch. */
static pst_status check_names(const pst_labels *labels, char **order) {
    memcpy(order, labels->name, labels->n * sizeof *order);
    qsort(order, labels->n, sizeof *order, by_text);
    for (uint32_t i = 1; i < labels->n; i++)
        if (!strcmp(order[i - 1], order[i]))
            return pst_fail(PST_EINPUT, "model.labels has '%.80s' twice", order[i]);
    return PST_OK;
}

static pst_status copy_names(char *const *name, uint32_t n, pst_labels *out) {
    out->name = calloc(2 * (size_t)n, sizeof *out->name);
    if (!out->name) return pst_no_memory("for the names of labels");
    for (out->n = 0; out->n < n; out->n++)
        if (!(out->name[out->n] = strdup(name[out->n])))
            return pst_no_memory("for the names of labels");
    return check_names(out, out->name + n);
}

pst_status pst_labels_of(char *const *name, uint32_t n, pst_labels *out) {
    pst_labels labels = {0};
    const int32_t number = n == 1 ? number_of(name[0]) : -1;
    pst_status status = PST_OK;
    if (number >= 0) labels.n = (uint32_t)number;
    else status = copy_names(name, n, &labels);
    if (status == PST_OK && labels.n < 2)
        status =
            pst_fail(PST_EINPUT, "model.labels gives %u label%s; a classification has at least two",
                     labels.n, labels.n == 1 ? "" : "s");
    if (status == PST_OK) *out = labels;
    else pst_labels_free(&labels);
    return status;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* A text and its label as text, which a zero follows. */
typedef struct {
    const char *text, *label;
    size_t bytes, label_bytes;
} row_text;

typedef struct {
    const pst_data_config *c;
    pst_labelled *out;
    pst_labels known; /* so far; sorted if they are found in the texts */
    size_t capacity;
    int finds;             /* 1: labels are those of the texts */
    int columns;           /* of the header of this file; 0: not read yet */
    int text_at, label_at; /* columns */
} reading;

static int32_t find_label(const pst_labels *labels, const char *text) {
    const int32_t number = number_of(text);
    if (!labels->name) return number < (int32_t)labels->n ? number : -1;
    for (uint32_t i = 0; i < labels->n; i++)
        if (!strcmp(labels->name[i], text)) return (int32_t)i;
    return -1;
}

static pst_status unknown_label(const pst_labels *labels, const char *text) {
    if (!labels->name)
        return pst_fail(PST_EINPUT, "the label '%.80s' is not a number from 0 to %u (model.labels)",
                        text, labels->n - 1);
    return pst_fail(PST_EINPUT,
                    "the label '%.80s' is none of the %u of model.labels, such as %.80s", text,
                    labels->n, labels->name[0]);
}

/* The place of a name among sorted ones, or where it belongs. */
static uint32_t place_of(const pst_labels *labels, const char *text) {
    uint32_t from = 0;
    uint32_t to = labels->n;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (strcmp(labels->name[middle], text) < 0) from = middle + 1;
        else to = middle;
    }
    return from;
}

static pst_status learn_label(reading *r, const char *text) {
    pst_labels *known = &r->known;
    const uint32_t at = place_of(known, text);
    if (at < known->n && !strcmp(known->name[at], text)) return PST_OK;
    if (known->n == MOST_LABELS)
        return pst_fail(PST_EINPUT,
                        "there are more than %d different labels; is \"%s\" the column "
                        "of labels (data.label)?",
                        MOST_LABELS, r->c->label);
    PST_TRY(pst_grow(&known->name, sizeof *known->name, known->n, &r->capacity, "for labels"));
    char *copy = strdup(text);
    if (!copy) return pst_no_memory("for labels");
    memmove(known->name + at + 1, known->name + at, (known->n - at) * sizeof *known->name);
    known->name[at] = copy;
    known->n++;
    return PST_OK;
}

/* Leaves a line out, or refuses it. */
static pst_status lacks(reading *r, pst_status status) {
    if (status != PST_EINPUT || !r->c->lines.skip) return status;
    r->out->skipped++;
    return PST_OK;
}

/* Of labels that are found, the text is kept behind that of the row until all are known. */
static pst_status add_row(reading *r, const row_text *x) {
    pst_labelled *out = r->out;
    int32_t label = -1;
    if (memchr(x->label, 0, x->label_bytes))
        return pst_fail(PST_EINPUT, "the label has a zero byte");
    if (!x->label_bytes && (r->finds || find_label(&r->known, "") < 0))
        return lacks(r, pst_fail(PST_EINPUT, "the label is empty (data.label)"));
    if (r->finds) PST_TRY(learn_label(r, x->label));
    else if ((label = find_label(&r->known, x->label)) < 0)
        return unknown_label(&r->known, x->label);
    PST_TRY(pst_grow(&out->row, sizeof *out->row, out->n, &out->capacity, "for labelled texts"));
    out->row[out->n] = (pst_labelled_row){out->text.n, x->bytes, label};
    PST_TRY(pst_text_add(&out->text, x->text, x->bytes));
    if (r->finds) PST_TRY(pst_text_add(&out->text, x->label, x->label_bytes + 1));
    out->n++;
    return PST_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static int column_of(const pst_csv_record *record, const char *name) {
    for (uint32_t i = 0; i < record->n; i++)
        if (!strcmp(pst_csv_field(record, i), name)) return (int)i;
    return -1;
}

static pst_status no_column(const pst_csv_record *record, const char *key, const char *name) {
    char list[200] = "";
    for (uint32_t i = 0; i < record->n; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.40s", used ? ", " : "",
                 pst_csv_field(record, i));
    }
    return pst_fail(PST_EINPUT, "there is no column \"%.40s\" (%s); the header has: %s", name, key,
                    list);
}

static pst_status take_header(reading *r, const pst_csv_record *record) {
    r->text_at = column_of(record, r->c->lines.field);
    r->label_at = column_of(record, r->c->label);
    if (r->text_at < 0) return no_column(record, "data.field", r->c->lines.field);
    if (r->label_at < 0) return no_column(record, "data.label", r->c->label);
    r->columns = (int)record->n;
    return PST_OK;
}

static pst_status take_record(void *arg, const pst_csv_record *record) {
    reading *r = arg;
    if (!r->columns) return take_header(r, record);
    if ((int)record->n != r->columns)
        return lacks(r, pst_fail(PST_EINPUT, "%u field%s, but the header has %d", record->n,
                                 pst_plural(record->n), r->columns));
    const uint32_t text = (uint32_t)r->text_at, label = (uint32_t)r->label_at;
    return add_row(r, &(row_text){pst_csv_field(record, text), pst_csv_field(record, label),
                                  pst_csv_bytes(record, text), pst_csv_bytes(record, label)});
}

static pst_status take_object(reading *r, const json_t *root) {
    const json_t *text = json_object_get(root, r->c->lines.field);
    const json_t *label = json_object_get(root, r->c->label);
    char number[24];
    if (!json_is_string(text))
        return lacks(r, pst_fail(PST_EINPUT, "no text in the field \"%s\"", r->c->lines.field));
    if (!json_is_string(label) && !json_is_integer(label))
        return lacks(r, pst_fail(PST_EINPUT,
                                 "the field \"%s\" (data.label) has neither a text nor a whole "
                                 "number",
                                 r->c->label));
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(label));
    const char *name = json_is_string(label) ? json_string_value(label) : number;
    const size_t bytes = json_is_string(label) ? json_string_length(label) : strlen(number);
    return add_row(r, &(row_text){json_string_value(text), name, json_string_length(text), bytes});
}

static pst_status take_line(const void *arg, pst_encoder *e, char *line, size_t n,
                            const pst_documents *out, uint64_t *skipped) {
    reading *r = *(reading *const *)arg;
    json_error_t error;
    (void)e;
    (void)out;
    (void)skipped;
    json_t *root = pst_json_lines_parse(line, n, &error);
    pst_status status =
        root ? take_object(r, root) : lacks(r, pst_fail(PST_EINPUT, "not JSON: %s", error.text));
    json_decref(root);
    return status;
}

static pst_status read_file(reading *r, const char *path) {
    uint64_t skipped = 0;
    const pst_line_form form = {take_line, &r, 0};
    r->columns = 0;
    if (pst_csv_is(path)) return pst_csv_read(path, take_record, r);
    if (pst_json_lines_is(path)) return pst_lines_encode(NULL, path, &form, NULL, &skipped);
    return pst_fail(PST_EINPUT,
                    "%s: data.kind labels reads CSV (*.csv) and JSON Lines (*.jsonl), also with "
                    ".gz or .zst",
                    path);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Labels that are all numbers stand for themselves. */
static int are_numbers(const pst_labels *labels, uint32_t *n) {
    *n = 0;
    for (uint32_t i = 0; i < labels->n; i++) {
        const int32_t number = number_of(labels->name[i]);
        if (number < 0) return 0;
        if ((uint32_t)number >= *n) *n = (uint32_t)number + 1;
    }
    return labels->n > 0;
}

/* The numbers of labels that were found. */
static pst_status settle(reading *r) {
    pst_labelled *l = r->out;
    uint32_t n;
    const int numbers = are_numbers(&r->known, &n);
    if (r->known.n < 2 || (numbers && n < 2))
        return r->known.n ? pst_fail(PST_EINPUT,
                                     "all texts have the label '%.80s'; a classification has at "
                                     "least two labels",
                                     r->known.name[0])
                          : pst_fail(PST_EINPUT, "there are no texts with labels");
    if (numbers) {
        pst_labels_free(&r->known);
        r->known.n = n;
    }
    for (uint64_t i = 0; i < l->n; i++)
        l->row[i].label = find_label(&r->known, l->text.byte + l->row[i].at + l->row[i].n);
    return PST_OK;
}

static pst_status read_files(reading *r, const pst_file_list *list) {
    for (uint32_t i = 0; i < list->n; i++) PST_TRY(read_file(r, list->file[i].path));
    return r->finds ? settle(r) : PST_OK;
}

pst_status pst_labelled_read(const pst_data_config *c, pst_labelled *out) {
    pst_file_list list = {0};
    *out = (pst_labelled){0};
    reading r = {.c = c, .out = out, .finds = !c->n_label};
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    pst_status status = r.finds ? PST_OK : pst_labels_of(c->label_name, c->n_label, &r.known);
    if (status == PST_OK) status = read_files(&r, &list);
    pst_files_free(&list);
    out->labels = r.known;
    if (status != PST_OK) pst_labelled_free(out);
    return status;
}

void pst_labelled_free(pst_labelled *l) {
    pst_text_free(&l->text);
    free(l->row);
    pst_labels_free(&l->labels);
    *l = (pst_labelled){0};
}
