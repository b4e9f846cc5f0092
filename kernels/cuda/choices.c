#include "kernels/cuda/choices.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pst_choice_write(const uint64_t words[PST_CHOICE_WORDS], pst_choice *choice) {
    size_t used = 0;
    for (int i = 0; i < PST_CHOICE_WORDS; i++)
        used += (size_t)snprintf(choice->is + used, sizeof choice->is - used,
                                 i ? " %016" PRIx64 : "%016" PRIx64, words[i]);
}

pst_status pst_choice_read(const pst_choice *choice, uint64_t words[PST_CHOICE_WORDS]) {
    const char *text = choice->is;
    int used = 0, n = 0;
    for (; n < PST_CHOICE_WORDS && sscanf(text, " %16" SCNx64 "%n", &words[n], &used) == 1; n++)
        text += used;
    if (n == PST_CHOICE_WORDS && !*text) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "the plan's algorithm for '%s' is invalid: expected %d numbers of 16 "
                    "hexadecimal digits; remove it from the plan to choose another",
                    choice->of, PST_CHOICE_WORDS);
}

const pst_choice *pst_choice_find(const pst_choice *list, uint32_t n, const char *of) {
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].of, of)) return &list[i];
    return NULL;
}
