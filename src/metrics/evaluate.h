/* Data sets that a run is evaluated on besides its validation split: eval.sets. */
#ifndef PST_METRICS_EVALUATE_H
#define PST_METRICS_EVALUATE_H
#include "config/config.h"
#include "data/data.h"
#include "models/model.h"
#include <math.h>

enum {
    PST_EVALUATE_NAME = 44
}; /* bytes of a set's name with its terminating zero; at most PST_ROW_ITEM_BYTES */

/* An evaluation: mean loss in nats per token, number of tokens; NaN and 0: none. bits_per_byte: the
 * sum of the losses per byte of text that the tokens stand for; NaN: unknown. next_sentence: the
 * part of the loss that is the mean over samples, in nats; NaN: there is none. accuracy: share of
 * the labels, or of the answers about the next sentence, that are right; NaN: the model gives
 * neither. */
typedef struct {
    double loss, bits_per_byte, next_sentence, accuracy;
    uint64_t tokens;
} pst_evaluation;
#define PST_EVALUATION_NONE                                                                        \
    { NAN, NAN, NAN, NAN, 0 }
/* The numbers of an evaluation or step that its loss does not show, with their keys in JSON:
 * returns how many there are. */
enum { PST_EVALUATE_PARTS = 3 };
typedef struct {
    const char *key;
    double value;
} pst_evaluate_part;
uint32_t pst_evaluate_parts(double loss, double next_sentence, double accuracy,
                            pst_evaluate_part out[PST_EVALUATE_PARTS]);
/* Bits per byte from a sum of losses in nats; NaN if bytes is 0, which means unknown. */
double pst_evaluate_bits_per_byte(double nats, uint64_t bytes);

typedef struct {
    char name[PST_EVALUATE_NAME];
    pst_data *data;
    pst_evaluation last;
} pst_evaluate_set;
typedef struct {
    uint32_t n;
    pst_evaluate_set *set; /* [n] in the run file's order */
} pst_evaluate_sets;

/* Opens the n files at path[] as data of data.kind, blended by data.blend unless held_out. Of
 * `model`, tokens per sample (context) and vocabulary are used; held_out: 1: all samples are for
 * evaluation. The caller closes *data. EINPUT as for pst_data_row. */
pst_status pst_evaluate_data(const pst_config *c, const pst_model_config *model, char *const *path,
                             uint32_t n, int held_out, pst_data **data);
/* Open and close the sets of eval.sets. EINPUT: the message names the set. A zeroed *sets may be
 * closed. */
pst_status pst_evaluate_open(const pst_config *c, const pst_model_config *model,
                             pst_evaluate_sets *sets);
void pst_evaluate_close(pst_evaluate_sets *sets);
/* The last evaluation of the set `name`, or `split` for "validation". NULL: there is no such set.
 */
const pst_evaluation *pst_evaluate_named(const pst_evaluate_sets *sets, const char *name,
                                         const pst_evaluation *split);
/* A hash of the sets' names and data, seeded with `hash`. */
uint64_t pst_evaluate_hash(const pst_evaluate_sets *sets, uint64_t hash);
#endif
