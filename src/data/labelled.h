/* Texts with a label each: CSV with a header, and JSON Lines. */
#ifndef PST_DATA_LABELLED_H
#define PST_DATA_LABELLED_H
#include "data/data.h"
#include "tokenizer/tokenizer.h"

/* name NULL: labels are the numbers below n. */
typedef struct {
    char **name; /* [n] */
    uint32_t n;
} pst_labels;
void pst_labels_free(pst_labels *labels);
/* What a list of names says, as in a run file: one item that is a number is how many there are. The
 * names are copied. EINPUT: there are fewer than two labels, or two have one name. */
pst_status pst_labels_of(char *const *name, uint32_t n, pst_labels *out);

typedef struct {
    uint64_t at; /* of its text in `text` */
    uint64_t n;  /* bytes of its text */
    int32_t label;
} pst_labelled_row;
typedef struct {
    pst_text text;
    pst_labelled_row *row; /* [n], in the order of the files */
    uint64_t n, skipped;   /* skipped: lines that were left out */
    size_t capacity;
    pst_labels labels; /* of c->label_name and c->n_label; those of the texts if n_label is 0: if
                          all are numbers, these, else their names in the order of strcmp */
} pst_labelled;
/* Reads the files c->paths: the columns, or fields, c->lines.field and c->label. The caller closes
 * *out. EINPUT: a file is of another kind, or lacks a column; a line lacks a text or a label,
 * unless c->lines.skip, or has another label than the ones known. */
pst_status pst_labelled_read(const pst_data_config *c, pst_labelled *out);
void pst_labelled_free(pst_labelled *l);
#endif
