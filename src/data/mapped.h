/* A file mapped into memory for reading. */
#ifndef PST_DATA_MAPPED_H
#define PST_DATA_MAPPED_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *byte; /* [bytes]; not NULL even if there are none */
    uint64_t bytes;
    int mapped;
} pst_mapped;
/* EINPUT names the file and why it cannot be read. A file that becomes shorter while it is mapped
 * ends the process by SIGBUS. */
pst_status pst_mapped_open(const char *path, pst_mapped *out);
void pst_mapped_close(pst_mapped *m);
/* Continues `hash` with the file's size and contents: all bytes of a file of up to 16 MiB; of a
 * larger one 256 blocks of 64 KiB, spread evenly from its first byte to its last. */
uint64_t pst_mapped_hash(const pst_mapped *m, uint64_t hash);
#endif
