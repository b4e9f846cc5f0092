/* What the parts of an encoding share: the one that encodes pieces (encode.c), and the one that
 * joins them (encode_join.c). */
#ifndef PST_DATA_ENCODE_PARTS_H
#define PST_DATA_ENCODE_PARTS_H
#include "data/encode.h"
#include "data/encode_progress.h"
#include <pthread.h>

typedef struct {
    uint32_t first, n; /* files */
    uint64_t before;   /* bytes of the files of all groups before */
} pst_encode_group;

typedef struct {
    const pst_encode_options *o;
    char *folder;
    uint32_t bytes; /* per token */
    uint64_t piece; /* bytes of text of a piece */
    pst_encode_group *group;
    uint32_t n_group;
    pst_encode_progress progress;
    _Atomic int failed; /* 1: the threads end */
    pthread_mutex_t lock;
    pst_status status; /* of the first failure */
    char message[1024];
} pst_encode_job;

/* The path of piece k of a group; NULL: no memory. The caller frees. */
char *pst_encode_path(const pst_encode_job *j, uint32_t group, uint64_t k);
typedef struct {
    uint64_t bytes, since_ns;
} pst_encode_stall;
/* Waits a moment for other processes. EPEER: they have made no progress for a minute, since the
 * first call with this *s, which is 0 before it; BUSY: a signal has come, or a thread has failed.
 */
pst_status pst_encode_wait(const pst_encode_job *j, pst_encode_stall *s);
/* Removes the files in the folder of pieces that belong to this encoding (others: that do not), and
 * returns their number. */
uint32_t pst_encode_remove(const pst_encode_job *j, int others);
/* EINPUT: PREFIX.bin or PREFIX.idx exists, and the options say to keep them. */
pst_status pst_encode_check_kept(const pst_encode_options *o);
/* Joins the pieces, which are all finished, unless another process has done it. *damaged: 1: a
 * piece was damaged, and has been removed. */
pst_status pst_encode_join(pst_encode_job *j, int *damaged);
#endif
