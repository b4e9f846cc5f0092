/* The place where two recordings differ, as data and as text. */
#ifndef PST_VERIFY_DIFFERENCE_H
#define PST_VERIFY_DIFFERENCE_H
#include "verify/recording.h"

enum { PST_DIFFERENCE_TEXT = 1024 };

typedef struct {
    int found;
    pst_record at, expected; /* the record that differs, and the record that it was compared with */
    const char *run, *expected_run; /* names of the two recordings */
    /* index of the first different element in `at`; UINT64_MAX: that element is not stored */
    uint64_t index;
    double value, expected_value;
    const char *why; /* NULL, or the meaning: "the message carried other numbers" */
} pst_difference;

/* Replaces *first by *other if *other comes earlier in program order. */
void pst_difference_keep(pst_difference *first, const pst_difference *other);
/* "step 2, micro-batch 1, B of h.0.mlp.c_fc: gradient of h.0.ln_2.out [0,3,17] is 0.5 on rank 1
 * (configured), 0.25 on rank 0 (one rank)" */
void pst_difference_print(const pst_difference *d, char text[PST_DIFFERENCE_TEXT]);
#endif
