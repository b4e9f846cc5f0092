/* Stores a chosen algorithm as text: the cublasLtMatmulAlgo_t, which is valid for one version of
 * the library, as 8 numbers of 16 hexadecimal digits. */
#ifndef PST_KERNELS_CUDA_CHOICES_H
#define PST_KERNELS_CUDA_CHOICES_H
#include "base/choice.h"
#include "base/status.h"
#include <stdint.h>

enum { PST_CHOICE_WORDS = 8 };

void pst_choice_write(const uint64_t words[PST_CHOICE_WORDS], pst_choice *choice);
/* EINPUT: the text is malformed. */
pst_status pst_choice_read(const pst_choice *choice, uint64_t words[PST_CHOICE_WORDS]);
/* The choice for the matrix product named `of` in a list; NULL: none. */
const pst_choice *pst_choice_find(const pst_choice *list, uint32_t n, const char *of);
#endif
