/* What shard.c (writes) and shard_verify.c (reads back) share with each other and with nobody
 * else. */
#ifndef PST_CHECKPOINT_SHARD_PARTS_H
#define PST_CHECKPOINT_SHARD_PARTS_H
#include "base/hash.h"
#include "checkpoint/shard.h"
#include "kernels/kernel.h"
#include <pthread.h>
#include <stdatomic.h>

enum { PST_SHARD_PARTS = 64 };

typedef struct {
    char *key, *name;      /* "xxh3:NAME" (owned), and where NAME begins in it */
    const uint8_t *memory; /* borrowed */
    uint64_t bytes, hash;  /* hash: once all of it is taken */
} pst_shard_tensor;

/* A piece between taking and written. */
typedef struct {
    uint64_t at;
    int active, held; /* held: written from the tensors' own memory */
} pst_shard_flight;

struct pst_shard {
    const pst_flat *flat; /* its sum of squares, in fp64, tells whether all numbers are finite */
    pst_shard_read fetch; /* NULL: tensors are read where they lie */
    void *fetch_arg;
    uint32_t n, align;          /* align: of direct writes */
    pst_shard_tensor *tensor;   /* in the file's order, one behind the other from header_bytes on */
    pst_safetensors_decl *decl; /* the same for the header */
    uint64_t *until;            /* [entries] where in the file an entry ends */
    char *header;               /* as it is written at the end */
    size_t header_bytes;
    uint64_t end, piece;
    char *path;     /* owned; of this round, as all below */
    int fd, direct; /* direct: past the page cache, -1 where there is no way */
    int opened;
    /* Under `take`: what is taken next. */
    pthread_mutex_t take;
    uint32_t next;
    uint64_t offset;
    pst_hasher *taking;
    /* Under `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t taken, written; /* up to where */
    pst_shard_flight flight[PST_SHARD_THREADS];
    int is_taking; /* a thread reads the piece at `taken` */
    int finishing, synced, late;
    uint64_t began_ns, hurry_ns;
    pst_status status;
    char message[1024];
    _Atomic uint64_t released; /* memory of the file's bytes up to here may change */
    /* The verifying thread's own. */
    /* it reads what the sync has brought to the disk, not right behind the writers */
    int after_sync;
    uint32_t read_next;
    uint64_t read, read_offset;
    pst_hasher *reading;
};

/* With the lock; until something has moved, or the monotonic clock says ns. */
void pst_shard_wait_until(pst_shard *s, uint64_t ns);
#endif
