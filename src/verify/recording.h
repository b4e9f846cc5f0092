/* The records that the ranks of a run have written (rank/record.h), read back and sorted. */
#ifndef PST_VERIFY_RECORDING_H
#define PST_VERIFY_RECORDING_H
#include "rank/record.h"

/* A record, with its stored elements. */
typedef struct {
    const pst_record_head *file;
    const pst_record *record;
    const uint8_t *stored;
} pst_recorded;

/* Identifies what a record contains: records with equal keys must contain the same numbers. */
typedef enum {
    PST_KEY_DATA,
    PST_KEY_VALUE, /* output of an operator, computed or recomputed */
    PST_KEY_PARAM,
    PST_KEY_SUM,
    PST_KEY_SCALAR,
    PST_KEY_STATE,
    PST_KEY_READ,
    PST_KEY_REPEATED /* see verify/repeated.h */
} pst_key_kind;
typedef struct {
    pst_key_kind kind;
    uint64_t step; /* STATE: number of steps done before the record */
    uint32_t micro;
    uint32_t tensor; /* tensor rank */
    uint64_t from;
    const char *name;
} pst_key;

typedef struct {
    const pst_record_head *head;
    size_t bytes;
} pst_record_file;
typedef struct {
    const char *name; /* name of the run for messages, such as "configured"; borrowed */
    uint32_t n_rank;
    pst_record_file *file; /* [n_rank] mapped */
    pst_recorded *item;    /* [n] sorted by key, then by rank */
    size_t n;
    const char **summed; /* [n_summed] names, sorted: operators whose outputs are added over tensor
                            ranks */
    size_t n_summed;
    char *owned; /* contents of the only file if it is not mapped; freed with the recording */
} pst_recording;

/* Maps FOLDER/rank-R.record of n_rank ranks; ignores an incomplete record at the end of a file,
 * which a killed rank leaves. The caller closes the recording. EINPUT: a file is missing or was
 * written by another build. */
pst_status pst_recording_open(const char *folder, const char *name, uint32_t n_rank,
                              pst_recording **recording);
/* The same for the contents of one rank's file, to which the recording refers; the caller then sets
 * `owned`. The recording ends before the first damaged record. EINPUT: the contents are not a
 * recording. */
pst_status pst_recording_parse(const char *bytes, size_t n, const char *name,
                               pst_recording **recording);
void pst_recording_close(pst_recording *recording);

pst_key pst_key_of(const pst_recorded *item);
/* Returns a number less than, equal to or greater than 0, like strcmp. */
int pst_key_compare(const pst_key *a, const pst_key *b);
/* The first item with this key; NULL: there is none. */
const pst_recorded *pst_recording_find(const pst_recording *r, const pst_key *key);
/* 1: the tensor ranks add the outputs of this operator. */
int pst_recording_sums(const pst_recording *r, const char *node);
/* 1: a comes before b in program order, so a wrong number in a may be the cause of one in b. */
int pst_recorded_before(const pst_record *a, const pst_record *b);

/* Stored element k as a number, and its index in the tensor. */
double pst_recorded_value(const pst_recorded *item, uint64_t k);
uint64_t pst_recorded_index(const pst_recorded *item, uint64_t k);
/* Number k of the stored element with this index in the tensor; UINT64_MAX: it is not stored. */
uint64_t pst_recorded_at(const pst_recorded *item, uint64_t index);
#endif
