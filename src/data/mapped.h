/* Many files read as one long text, mapped read-only: they cost address space and page cache, no memory of ours. */
#ifndef PST_DATA_MAPPED_H
#define PST_DATA_MAPPED_H
#include "data/files.h"

typedef struct pst_mapped pst_mapped;
/* Takes the list over (empties it) on success. One thread at a time. */
pst_status pst_mapped_open(pst_file_list *list, pst_mapped **mapped);
void pst_mapped_close(pst_mapped *m);
uint64_t pst_mapped_bytes(const pst_mapped *m);
/* XXH64 over name (without folders) and size of every file, in order. */
uint64_t pst_mapped_hash(const pst_mapped *m);
/* Copies bytes [at, at + n) of the text. EINPUT when a file is no longer what it was when the list was made.
 * A file that is cut short while it is mapped raises SIGBUS on access, as with every mapping: text that is being
 * trained on must not be rewritten in place. */
pst_status pst_mapped_read(pst_mapped *m, uint64_t at, uint64_t n, uint8_t *out);
#endif
