/* Many files read as one long text, without loading them; only few files are open at a time. */
#ifndef PST_DATA_JOINED_H
#define PST_DATA_JOINED_H
#include "data/files.h"

typedef struct pst_joined pst_joined;
/* Takes ownership of the files of `list` and empties the list on success. A pst_joined is for one
 * thread at a time. */
pst_status pst_joined_open(pst_file_list *list, pst_joined **joined);
void pst_joined_close(pst_joined *j);
uint64_t pst_joined_bytes(const pst_joined *j);
/* Number of files, and offset of file i in the text; i = number of files gives the text's end. */
uint32_t pst_joined_files(const pst_joined *j);
uint64_t pst_joined_start(const pst_joined *j, uint32_t i);
/* XXH64 over name (without folders) and size of every file, in order. */
uint64_t pst_joined_hash(const pst_joined *j);
/* Copies bytes [at, at + n) of the text; allocates nothing. EINPUT if a file cannot be read or its
 * size has changed since the list was made. */
pst_status pst_joined_read(pst_joined *j, uint64_t at, uint64_t n, uint8_t *out);
#endif
