/* See words.h. */
#include "tokenizer/words.h"
#include <stdlib.h>

pst_status pst_words_open(pst_words *w) {
    w->slot = calloc(PST_WORD_SLOTS, sizeof *w->slot);
    return w->slot ? PST_OK : pst_no_memory("to remember words");
}

void pst_words_close(pst_words *w) {
    free(w->slot);
    w->slot = NULL;
}
