/* The option rows of the run file (only for src/config): what a key is, and its value as text. */
#ifndef PST_CONFIG_ROWS_H
#define PST_CONFIG_ROWS_H
#include "base/status.h"
#include "config/config.h"

/* WHOLES: an integer or a list of integers. STEPS: a number of steps, or a share of all steps,
 * stored as a negative number. SECONDS: a time, as pst_number_seconds. NAMED: lists with names; an
 * item is "name=text", and the items of a name stand together. */
typedef enum {
    PST_ROW_WHOLE,
    PST_ROW_REAL,
    PST_ROW_BYTES,
    PST_ROW_STEPS,
    PST_ROW_SECONDS,
    PST_ROW_TEXT,
    PST_ROW_LIST,
    PST_ROW_WHOLES,
    PST_ROW_NAMED
} pst_row_type;
/* ABOVE, BELOW: the range excludes its minimum or maximum. FILLED: must not be empty. PATH: names
 * files, which may be relative to the run file. FULL: overrides must use the full path, as for keys
 * of nested sections, because the short name belongs to an older key. */
enum {
    PST_ROW_REQUIRED = 1,
    PST_ROW_ABOVE = 2,
    PST_ROW_BELOW = 4,
    PST_ROW_FILLED = 8,
    PST_ROW_PATH = 16
};
enum { PST_ROW_FULL = 32 };

typedef struct {
    const char *section, *key; /* section "": a key at the top level; "a.b": section b in section a
                                */
    pst_row_type type;
    const char *fallback; /* the default as text; NULL for lists and required keys */
    double min, max;      /* WHOLE, WHOLES, REAL, BYTES; max INFINITY: no maximum */
    unsigned flags;
    /* TEXT, LIST: "a|b|{c: N}", NULL any; WHOLE, REAL: a word for 0 */
    const char *allowed;
    size_t offset, count; /* in struct pst_config; count (uint32_t) of a LIST, of WHOLES */
    const char *help;
    const char *former_name; /* a former full path, which files and overrides may still use; the
                                last part still works as a short key; NULL: none */
} pst_row;

/* The table. Tests may replace it. */
extern const pst_row *pst_rows;
extern size_t pst_n_row;
enum { PST_ROWS_MAX = PST_CONFIG_KEYS, PST_ROW_TEXT_BYTES = 512, PST_ROW_NAME_BYTES = 128 };
enum { PST_ROW_ITEM_BYTES = 40 }; /* maximum number of characters of a name in a NAMED */

/* The row of a key; NULL if there is none. any: also finds a key by its former name. */
const pst_row *pst_row_find(const char *section, const char *key);
const pst_row *pst_row_find_any(const char *section, const char *key);
/* The row that an override means: by its full path, or by a key that only one section has.
 * EINPUT has a suggestion. */
pst_status pst_row_find_override(const char *name, const pst_row **row);
/* Sets a key, or a name in a NAMED (item, else NULL), from an override's text. */
pst_status pst_row_override(const pst_row *row, pst_config *config, const char *item,
                            const char *text);
/* 1: `name` is a section, such as "parallel" or "parallel.compress". */
int pst_row_is_section(const char *name);
/* 1: an override may give the key alone, without the section. */
int pst_row_is_short(const pst_row *row);
/* "train.lr", or "name" for a key at the top level. */
const char *pst_row_name(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* Describes the values that the row accepts: "a number > 0", "one of gpt, mlp". */
const char *pst_row_expects(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* EINPUT: "unknown key 'batchsize' in train; did you mean 'batch'?" */
pst_status pst_row_unknown(const char *section, const char *key);

/* foreign.c. 1: other programs have a key of that name. *key: the key of penstock, or NULL and
 * *say: what to do instead. */
int pst_row_foreign(const char *name, const char **key, const char **say);
/* A suggestion for a value that the row refuses; NULL: none. */
const char *pst_row_foreign_value(const pst_row *row, const char *text);
/* For tests: returns the key of entry i of the tables in foreign.c ("": the entry has no key), NULL
 * after the last entry. *names: the names of other programs; NULL for the table of values. */
const char *pst_row_foreign_at(size_t i, const char **names);

/* Sets a value from text; a list gets this text as its only item. EINPUT: "expected a number > 0,
 * found 'abc'". */
pst_status pst_row_set(const pst_row *row, pst_config *config, const char *text);
/* Whether `allowed` has an item {NAME: N}: a word with a number in [min, max] or "auto". */
int pst_row_has_counted(const pst_row *row);
/* Checks a text for a TEXT, LIST or WHOLES row; EINPUT as for pst_row_set. */
pst_status pst_row_check_text(const pst_row *row, const char *text);
static inline int pst_row_is_list(const pst_row *row) {
    return row->type == PST_ROW_LIST || row->type == PST_ROW_WHOLES || row->type == PST_ROW_NAMED;
}
/* Sets members that follow from others: parallel.tensor from the list of degrees. */
void pst_row_resolve(pst_config *config);
/* Empties or extends a LIST. drop: removes the items of a NAMED with this name. */
void pst_row_clear(const pst_row *row, pst_config *config);
void pst_row_drop(const pst_row *row, pst_config *config, const char *name);
pst_status pst_row_add(const pst_row *row, pst_config *config, const char *text);
/* EINPUT: "expected ..., found ..."; `found` is printed as it is. */
pst_status pst_row_refuse(const pst_row *row, const char *found);
/* paths.c. Makes relative paths of a PATH row absolute if their first component exists in `folder`.
 */
pst_status pst_row_resolve_paths(const pst_row *row, pst_config *config, const char *folder);
/* Print the value: as YAML, or for people, on one line without quotes. */
void pst_row_print(const pst_row *row, const pst_config *config, FILE *out);
void pst_row_show(const pst_row *row, const pst_config *config, FILE *out);

/* option.c. Prints words from column `at` on and continues lines at column `indent`. */
void pst_option_print_wrapped(const char *text, int at, int indent, FILE *out);

/* Where a row's value came from, for error messages. */
typedef struct {
    const char *override; /* the override's text, or NULL if it came from the file: */
    size_t line, column;  /* counted from 1; line 0: not given */
    size_t order;         /* in which the values were read, from 1 */
    const char *file;     /* of line and column; owned by the reading */
} pst_row_origin;
typedef struct {
    pst_config *config;
    const char *file;
    size_t n_read;   /* values read so far */
    char **included; /* [n_included] names of the files that were read through `include` */
    size_t n_included;
    int from_disk; /* `file` is a path, not just a name for messages */
    pst_row_origin origin[PST_ROWS_MAX];
} pst_reading;

/* conditional.c. 1: the key is used with the present values of the other keys; for example,
 * model.heads is used with some values of model.kind. Always 1 for keys that only cause a warning
 * (pst_config_unused). */
int pst_row_is_used(const pst_row *row, const pst_config *config);
/* "model.kind gpt, bert": with which value the key is used; "": always. Returns out. */
const char *pst_row_used_with(const pst_row *row, char out[PST_ROW_TEXT_BYTES]);
/* EINPUT if a key is given that is not used, unless the value is 0 or empty; *at: the place of that
 * key. In a copy written by an earlier version, which has all keys, such keys get their defaults.
 */
pst_status pst_reading_check_used(pst_reading *reading, const pst_row_origin **at);

/* include.c. The run file that is being read, and the one that includes it; NULL: none does. */
typedef struct pst_run_file {
    const char *name;
    const struct pst_run_file *includer;
} pst_run_file;
/* *path: that of a run file named in `by`, relative to its folder; owned by the reading. EINPUT:
 * the file includes itself. */
pst_status pst_include_open(pst_reading *reading, const pst_run_file *by, const char *name,
                            const char **path);
void pst_include_close(pst_reading *reading);
/* EINPUT: the file is longer than 1 MiB, so it is no run file. */
pst_status pst_run_file_fits(const char *path, size_t bytes);
/* The text of a run file, which the caller frees. EINPUT: cannot be read, or longer than 1 MiB. */
pst_status pst_run_file_text(const char *path, char **text, size_t *bytes);

/* Reads the YAML text of a file into reading->config: first the files that it includes, so that its
 * own keys replace theirs. Then makes its relative paths absolute if the file is on disk. */
pst_status pst_document_read(pst_reading *reading, const pst_run_file *file, const char *text,
                             size_t bytes);
/* Reads text as the value of a LIST, one YAML sequence of scalars; or of a NAMED, a mapping
 * whose entries replace those with the same name; other entries are added. */
pst_status pst_document_read_list(const pst_row *row, pst_config *config, const char *text);
#endif
