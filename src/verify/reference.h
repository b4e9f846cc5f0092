/* Reference files: what a run on one rank has computed, for verifications on other machines and by
 * later versions. */
#ifndef PST_VERIFY_REFERENCE_H
#define PST_VERIFY_REFERENCE_H
#include "config/config.h"
#include "verify/recording.h"

enum { PST_REFERENCE_MADE_BY = 160 };

/* Writes a recording of one rank: of every step the numbers, gradients, weights and states, and of
 * the first micro-batch all operators, with the digest and up to 64 elements each. config: of that
 * run; parts: as in pst_promise. ENOMEM, EINPUT: cannot write. */
pst_status pst_reference_save(const char *path, const pst_config *config, uint32_t parts,
                              const pst_recording *recording);
/* A file that was read. */
typedef struct {
    pst_recording *recording;            /* its name is the path; the caller closes it */
    char made_by[PST_REFERENCE_MADE_BY]; /* "penstock 0.1.0, avx512, oneDNN 2.6.3, 2 parts" */
    int same;                            /* made by the same as here, so that bits must be equal */
} pst_reference;
/* own: the recording that is to be compared with it. EINPUT: the file cannot be read, or is of
 * another model or other settings; names the first. */
pst_status pst_reference_load(const char *path, const pst_config *config, uint32_t parts,
                              const pst_recording *own, pst_reference *reference);
#endif
