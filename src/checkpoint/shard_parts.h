/* Shared by shard.c (writes) and shard_verify.c (reads back), private to them. */
#ifndef PST_CHECKPOINT_SHARD_PARTS_H
#define PST_CHECKPOINT_SHARD_PARTS_H
#include "base/hash.h"
#include "checkpoint/shard.h"
#include "kernels/kernel.h"
#include <pthread.h>
#include <stdatomic.h>

enum { PST_SHARD_PARTS = 64 };

typedef struct {
    char *key, *name;      /* "xxh3:NAME" (owned), and a pointer to NAME in it */
    const uint8_t *memory; /* borrowed */
    pst_dtype dtype;       /* PST_F32 or PST_BF16 */
    uint64_t bytes, hash;  /* hash of the bytes, set when all were read */
} pst_shard_tensor;

/* A piece of the file that a thread has taken but not yet written. */
typedef struct {
    uint64_t at;
    int active, held; /* held: written directly from the tensors' memory */
} pst_shard_flight;

struct pst_shard {
    const pst_flat *flat; /* vector functions; the fp64 sum of squares shows whether fp32 numbers
                             are finite */
    pst_shard_read fetch; /* NULL: tensors are read directly */
    void *fetch_arg;
    uint32_t n, align;          /* align: bytes, for direct I/O */
    pst_shard_tensor *tensor;   /* in the file's order, consecutive from header_bytes on */
    pst_safetensors_decl *decl; /* what the header declares, in the same order */
    uint64_t *until;            /* [entries] end of an entry in the file */
    char *header;               /* written when all tensors were read */
    size_t header_bytes;
    uint64_t end, piece;
    char *path;     /* owned; this and all members below are of the current round */
    int fd, direct; /* direct: descriptor for direct I/O, -1: not available */
    int opened;
    /* Protected by `take`: position of the next piece. */
    pthread_mutex_t take;
    uint32_t next;
    uint64_t offset;
    pst_hasher *taking;
    /* Protected by `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t taken, written; /* file positions up to which bytes were read from memory, and were
                                written */
    pst_shard_flight flight[PST_SHARD_THREADS];
    int is_taking; /* a thread reads the piece at `taken` */
    int finishing, synced, late;
    uint64_t began_ns, deadline_ns;
    pst_status status;
    char message[1024];
    _Atomic uint64_t released; /* the memory of file bytes before this position may change */
    /* Used by the verifying thread only. */
    /* 1: verifies after the sync; 0: follows the writers */
    int after_sync;
    uint32_t read_next;
    uint64_t read, read_offset;
    pst_hasher *reading;
};

/* Waits, with the lock held, until there is progress or the monotonic clock reaches ns. */
void pst_shard_wait_until(pst_shard *s, uint64_t ns);
#endif
