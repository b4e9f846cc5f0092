/* For eval*.c: what one set gives, and the functions that evaluate a set. */
#ifndef PST_GENERATE_EVAL_H
#define PST_GENERATE_EVAL_H
#include "data/data.h"
#include "generate/source.h"
#include "penstock/run.h"

typedef enum { PST_EVAL_TEXT, PST_EVAL_LABELS, PST_EVAL_WORDS, PST_EVAL_CHOICES } pst_eval_kind;

/* Numbers that do not apply are NaN or 0. */
typedef struct {
    pst_eval_kind kind;
    uint64_t n;      /* samples, words or questions */
    uint64_t tokens; /* targets whose losses were added */
    uint64_t bytes;  /* of the text that they stand for; 0: unknown */
    double nats;     /* sum of the losses; of words: of the words to predict */
    /* words, labels, answers about the next sentence, or questions by the likelihood of an ending
     */
    uint64_t right;
    uint64_t right_per_byte; /* questions by the likelihood per byte of an ending */
    int answers;             /* text, labels: 1: `right` is known */
    int pairs;               /* 1: samples are pairs of segments: */
    double pair_nats;        /* sum of the losses of whether B follows A, one of each sample */
} pst_eval_result;

/* What is evaluated, and how much of a set. */
typedef struct {
    const pst_source *source;
    pst_model_config model; /* context: the most tokens of a sample */
    uint64_t limit;         /* as in pst_eval_options */
} pst_eval_scope;

/* data: samples of scope->model.context tokens. */
pst_status pst_eval_text(const pst_eval_scope *scope, pst_data *data, pst_eval_result *out);
/* file: of lines, as pst_eval_options says. EINPUT names file and line. */
pst_status pst_eval_words(const pst_eval_scope *scope, const char *file, pst_eval_result *out);
pst_status pst_eval_choices(const pst_eval_scope *scope, const char *file, pst_eval_result *out);
/* eval_lines.c: calls `each` for every line of a file that is not blank, up to `limit`; number:
 * that of the line, from 1; its errors get file and line. EINPUT: the file cannot be read, or has
 * no such lines. */
pst_status pst_eval_lines(const char *file, uint64_t limit,
                          pst_status (*each)(void *arg, char *line, size_t n), void *arg);
/* Appends the ids of a text; EINPUT: the model with so many tokens lacks one. */
pst_status pst_eval_encode(pst_encoder *e, const char *text, size_t n, int first,
                           uint32_t vocabulary, pst_ids *ids);
#endif
