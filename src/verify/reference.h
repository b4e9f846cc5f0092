/* Reference files: the results of a run on one rank, with which runs on other machines and of later
 * versions are compared. */
#ifndef PST_VERIFY_REFERENCE_H
#define PST_VERIFY_REFERENCE_H
#include "config/config.h"
#include "verify/recording.h"
#include "verify/shape.h"

enum { PST_REFERENCE_MADE_BY = 160 };

/* What a reference file is of: a run on one rank. */
typedef struct {
    const pst_config *config;    /* of that run */
    const pst_shape_keys *small; /* with which verify has shrunk it */
    uint32_t parts;              /* as in pst_promise */
    uint64_t data, graph;        /* hashes of the data set and of the unsplit graph */
} pst_reference_of;

/* Writes the recording of a run on one rank: scalars, gradients, weights and optimizer state of
 * every step, and the outputs of all operators for the first micro-batch; of each tensor the digest
 * and up to 64 elements. ENOMEM; EINPUT: the file cannot be written. */
pst_status pst_reference_save(const char *path, const pst_reference_of *of,
                              const pst_recording *recording);
/* The contents of a reference file. */
typedef struct {
    pst_recording *recording; /* its name is the path; the caller closes it */
    /* "penstock 0.1.0, avx512, oneDNN 2.6.3, gradients summed in 2 parts" */
    char made_by[PST_REFERENCE_MADE_BY];
    int same; /* 1: made_by is the same for this process, so bits must be equal */
} pst_reference;
/* EINPUT: the file cannot be read, or is of another model, other data or other settings than `of`;
 * the message names the first difference. */
pst_status pst_reference_load(const char *path, const pst_reference_of *of,
                              pst_reference *reference);
#endif
