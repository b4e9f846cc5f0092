/* The option rows of the run file (inside src/config only): what a key is, and its value as
 * text. */
#ifndef PST_CONFIG_ROWS_H
#define PST_CONFIG_ROWS_H
#include "base/status.h"
#include "config/config.h"

/* WHOLES: one whole number or a LIST of them. STEPS: a number of steps, or a share of them, which
 * is kept below 0. NAMED: lists that have names; an item is "name=text", and those of a name stand
 * together. */
typedef enum {
    PST_ROW_WHOLE,
    PST_ROW_REAL,
    PST_ROW_BYTES,
    PST_ROW_STEPS,
    PST_ROW_TEXT,
    PST_ROW_LIST,
    PST_ROW_WHOLES,
    PST_ROW_NAMED
} pst_row_type;
/* ABOVE, BELOW: the range leaves out its minimum, its maximum. FILLED: an empty text is refused.
 * PATH: names files, maybe beside the run file. FULL: overridden by its full path only, as keys of
 * nested sections are: its name is that of an older key. */
enum {
    PST_ROW_REQUIRED = 1,
    PST_ROW_ABOVE = 2,
    PST_ROW_BELOW = 4,
    PST_ROW_FILLED = 8,
    PST_ROW_PATH = 16
};
enum { PST_ROW_FULL = 32 };

typedef struct {
    const char *section, *key; /* section "": the key stands at the top of the file; "a.b": b is a
                                  section in a */
    pst_row_type type;
    const char *fallback; /* the default as it would be written; NULL for lists and required keys */
    double min, max;      /* WHOLE, WHOLES, REAL, BYTES; max INFINITY: none */
    unsigned flags;
    const char *allowed;  /* TEXT: "a|b|c", NULL any; WHOLE: a word for 0 */
    size_t offset, count; /* in struct pst_config; count (uint32_t) of a LIST, of WHOLES */
    const char *help;
    const char *former_name; /* the full path that it once had, which files and overrides may still
                                use, as they may the last part of it as a short key; NULL none */
} pst_row;

/* The table. Tests may put one of their own here. */
extern const pst_row *pst_rows;
extern size_t pst_n_row;
enum {
    PST_ROWS_MAX = sizeof((pst_config *)0)->given,
    PST_ROW_TEXT_BYTES = 512,
    PST_ROW_NAME_BYTES = 128
};
enum { PST_ROW_ITEM_BYTES = 40 }; /* of a name in a NAMED */

/* NULL when there is none. any: also by the name that it once had. */
const pst_row *pst_row_find(const char *section, const char *key);
const pst_row *pst_row_find_any(const char *section, const char *key);
/* The row that an override means: by its full path, or by a key that only one section has. EINPUT
 * says what was meant. */
pst_status pst_row_find_override(const char *name, const pst_row **row);
/* The value of a key, or of a name in a NAMED (item, else NULL), as an override has it. */
pst_status pst_row_override(const pst_row *row, pst_config *config, const char *item,
                            const char *text);
/* "parallel", "parallel.compress". */
int pst_row_is_section(const char *name);
/* Whether its key alone may override it. */
int pst_row_is_short(const pst_row *row);
/* "train.lr", or "name" at the top. */
const char *pst_row_name(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* What the row takes: "a number > 0", "one of gpt, mlp". */
const char *pst_row_expects(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* EINPUT: "unknown key 'batchsize' in train; did you mean 'batch'?" */
pst_status pst_row_unknown(const char *section, const char *key);

/* foreign.c. Whether other programs have a key of that name; *key: ours, or NULL and *say: what
 * there is instead. */
int pst_row_foreign(const char *name, const char **key, const char **say);
/* What to say of a value that the row does not take; NULL: nothing. */
const char *pst_row_foreign_value(const pst_row *row, const char *text);
/* For tests: the key that the i-th entry is about, "" none, and its names (NULL: of values); NULL
 * after the last. */
const char *pst_row_foreign_at(size_t i, const char **names);

/* Sets a value from text; a list becomes that one item. EINPUT: "expected a number > 0, found
 * 'abc'". */
pst_status pst_row_set(const pst_row *row, pst_config *config, const char *text);
/* Whether the row, TEXT, LIST or WHOLES, takes this text; EINPUT as for pst_row_set. */
pst_status pst_row_check_text(const pst_row *row, const char *text);
static inline int pst_row_is_list(const pst_row *row) {
    return row->type == PST_ROW_LIST || row->type == PST_ROW_WHOLES || row->type == PST_ROW_NAMED;
}
/* What follows from rows that were set: parallel.tensor from its list. */
void pst_row_resolve(pst_config *config);
/* Empties or extends a LIST. drop: the items of a NAMED that have this name. */
void pst_row_clear(const pst_row *row, pst_config *config);
void pst_row_drop(const pst_row *row, pst_config *config, const char *name);
pst_status pst_row_add(const pst_row *row, pst_config *config, const char *text);
/* EINPUT: "expected ..., found ..." with `found` as it stands. */
pst_status pst_row_refuse(const pst_row *row, const char *found);
/* Paths (of a PATH row) whose first name stands in `folder` become absolute paths there. */
pst_status pst_row_beside(const pst_row *row, pst_config *config, const char *folder);
/* The value in YAML. */
void pst_row_print(const pst_row *row, const pst_config *config, FILE *out);

/* Where a row's value came from, for complaints that involve several. */
typedef struct {
    const char *override; /* the override's text, or NULL: */
    size_t line, column;  /* in the file, from 1; line 0: not given */
} pst_row_origin;
typedef struct {
    pst_config *config;
    const char *file;
    int from_disk; /* `file` is a path, not a name for messages */
    pst_row_origin origin[PST_ROWS_MAX];
} pst_reading;

/* reads.c. Whether the key is read with what is chosen: model.heads is by some values of
 * model.kind. Not of keys of which a run only warns (pst_config_unread). */
int pst_row_is_read(const pst_row *row, const pst_config *config);
/* "model.kind gpt, bert": where the key is read; "": everywhere. Returns out. */
const char *pst_row_readers(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* EINPUT when a key is given that is not read, and not as 0 or empty; *at: where. In a copy that an
 * earlier version wrote, which has all keys, such keys get their defaults. */
pst_status pst_reading_check_read(pst_reading *reading, const pst_row_origin **at);

/* Reads the YAML text into reading->config. */
pst_status pst_document_read(pst_reading *reading, const char *text, size_t bytes);
/* Reads text as the value of a LIST, one YAML sequence of scalars; of a NAMED, a mapping whose
 * names replace or join those that there are. */
pst_status pst_document_read_list(const pst_row *row, pst_config *config, const char *text);
#endif
