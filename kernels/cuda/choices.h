/* cuBLASLt's own record of an algorithm, which is made to be kept for the same version, as the text
 * of a choice: 8 numbers of 16 hexadecimal digits. */
#ifndef PST_KERNELS_CUDA_CHOICES_H
#define PST_KERNELS_CUDA_CHOICES_H
#include "base/choice.h"
#include "base/status.h"
#include <stdint.h>

enum { PST_CHOICE_WORDS = 8 };

void pst_choice_write(const uint64_t words[PST_CHOICE_WORDS], pst_choice *choice);
/* EINPUT: it is no such text. */
pst_status pst_choice_read(const pst_choice *choice, uint64_t words[PST_CHOICE_WORDS]);
/* NULL: the list has none for that. */
const pst_choice *pst_choice_find(const pst_choice *list, uint32_t n, const char *of);
#endif
