/* The safetensors file format: 8 bytes header length (little endian), JSON header, tensor bytes.
 * Sizes are checked before anything is allocated; files are not trusted. */
#ifndef PST_CHECKPOINT_SAFETENSORS_H
#define PST_CHECKPOINT_SAFETENSORS_H
#include "base/dtype.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name, *dtype; /* dtype as written in the file: "F32", "BF16", "F16", "I64", ... */
    uint32_t n_dim;
    uint64_t dim[8];
    uint64_t offset, bytes; /* position in the file and size, in bytes */
} pst_safetensors_entry;
typedef struct {
    uint32_t n_entry;
    pst_safetensors_entry *entry; /* sorted by name */
    uint32_t n_meta;
    char **meta_key, **meta_value;
    uint64_t header_xxh3; /* hash of the bytes before the first tensor */
    int fd, gaps;         /* gaps: 1: there may be some between tensors */
    char *path;
} pst_safetensors_file;

/* EINPUT with path and reason: truncated, header beyond the file's end, not JSON, overlapping or
 * out-of-range offsets, shape and byte count that disagree, duplicate names. The header is at
 * most 100 MB. */
pst_status pst_safetensors_open(const char *path, pst_safetensors_file **file);
/* The same for a file of our own, whose tensors may have gaps between them. */
pst_status pst_safetensors_open_own(const char *path, pst_safetensors_file **file);
void pst_safetensors_close(pst_safetensors_file *file);
/* find: the tensor of that name; meta: the value of a metadata key. NULL if there is none. */
const pst_safetensors_entry *pst_safetensors_find(const pst_safetensors_file *file,
                                                  const char *name);
const char *pst_safetensors_meta(const pst_safetensors_file *file, const char *key);
/* Reads the tensor as fp32 (from F32, BF16, F16, F64). elements: must be the tensor's number of
 * elements. transpose: the file stores [dim1,dim0]. */
pst_status pst_safetensors_read_f32(const pst_safetensors_file *file,
                                    const pst_safetensors_entry *entry, float *out,
                                    uint64_t elements, int transpose);

/* Reads bytes [from, from + bytes) of the tensor, without conversion. */
pst_status pst_safetensors_read_bytes(const pst_safetensors_file *file,
                                      const pst_safetensors_entry *entry, uint64_t from, void *out,
                                      uint64_t bytes);

/* Writing: declare all tensors, then write their bytes in order. Writes to `path` itself (the
 * caller renames folders), with fsync at close. ENOMEM: the disk is full or cannot be written; the
 * message gives the text of errno. */
typedef struct pst_safetensors_writer pst_safetensors_writer;
typedef struct {
    const char *name;
    pst_dtype dtype;
    uint32_t n_dim;
    uint64_t dim[8];
} pst_safetensors_decl;
/* Entries of __metadata__. */
typedef struct {
    const char *const *key, *const *value;
    uint32_t n;
} pst_safetensors_meta_list;
/* The header: the first bytes of a file. */
typedef struct {
    char *text; /* length and JSON, padded with blanks; owned by the caller */
    size_t size;
    uint64_t bytes; /* total bytes of all tensors */
} pst_safetensors_header;
/* The tensors begin at a multiple of `align` (8 or more); meta may be NULL. */
pst_status pst_safetensors_header_make(const pst_safetensors_decl *decl, uint32_t n,
                                       const pst_safetensors_meta_list *meta, size_t align,
                                       pst_safetensors_header *header);
/* The same with gaps: tensor i begins at[i] bytes behind the header. */
pst_status pst_safetensors_header_at(const pst_safetensors_decl *decl, const uint64_t *at,
                                     uint32_t n, const pst_safetensors_meta_list *meta,
                                     size_t align, pst_safetensors_header *header);
pst_status pst_safetensors_create(const char *path, const pst_safetensors_decl *decl, uint32_t n,
                                  const pst_safetensors_meta_list *meta,
                                  pst_safetensors_writer **writer);
pst_status pst_safetensors_write(pst_safetensors_writer *w, const void *data, uint64_t bytes);
pst_status pst_safetensors_finish(pst_safetensors_writer *w); /* syncs, closes and frees the writer,
                                                                 also on failure */
void pst_safetensors_discard(pst_safetensors_writer *w); /* removes the file and frees the writer */
#endif
