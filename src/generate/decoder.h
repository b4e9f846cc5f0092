/* Sequences of tokens and their way through a model. A run of the model computes the tokens of each
 * sequence that it has not seen yet. With a cache it computes these alone, up to some tokens at a
 * time; without, on devices that have no kernels for a cache, the whole window again. */
#ifndef PST_GENERATE_DECODER_H
#define PST_GENERATE_DECODER_H
#include "generate/source.h"
#include "group/group.h"

/* A sequence. The model sees the tokens from `start` on, at most as many as its context; when there
 * are more, a decoder moves `start` so that the newest half of a context is left. */
typedef struct {
    int32_t *token; /* owned by the caller, who appends tokens */
    uint64_t n;
    uint64_t start, past; /* past: tokens from `start` on that are in the cache */
    int done;             /* 1: no more logits are wanted */
    /* after a run: logits of the token that follows, [vocabulary], valid until the next run; NULL:
     * some tokens have not been computed yet */
    const float *logits;
} pst_sequence;

typedef struct {
    pst_prepared *p;
    pst_group *group;
    int cache;
    uint32_t n, context, vocabulary;     /* n: sequences */
    uint32_t tokens, past, last, output; /* tensors of the graph; without a cache: no past, last */
    int32_t *window, *behind;            /* [n][positions of a run], [2][n] */
    /* [n][vocabulary] of devices with their own memory, or of a rank in another process */
    float *logits;
} pst_decoder;

typedef struct {
    uint32_t sequences; /* computed together, 1 or more */
    uint32_t positions; /* of a sequence, as pst_prepare_options.positions */
    uint32_t ranks;     /* of the job; 0: 1 */
    uint32_t tensor;    /* tensor ranks of each stage; 0: 1 */
    pst_world *world;   /* of the job, whose processes are its ranks; NULL: all are in this one */
    uint32_t threads;   /* CPU threads per rank; 0: the machine's, shared by the ranks */
    int no_cache;       /* 1: every run computes the whole window */
} pst_decoder_options;
/* Opens the model of `source`, which is borrowed, and reads its weights. The caller closes *out.
 * EINPUT: the model cannot continue text, or has too few layers for so many stages. With a world,
 * which is taken over in any case, all processes must call it, and pst_decoder_run, with the same
 * arguments. */
pst_status pst_decoder_open(const pst_source *source, const pst_decoder_options *options,
                            pst_decoder *out);
/* Checks all that pst_decoder_open needs but the weights, for a process that is about to start the
 * ranks. */
pst_status pst_decoder_check(const pst_source *source, const pst_decoder_options *options);
/* status: as pst_group_close. */
void pst_decoder_close(pst_decoder *d, pst_status status);
/* One run for sequences s[0..n), which must have tokens that are not in the cache, unless they are
 * done. In a job every process gets the logits. */
pst_status pst_decoder_run(pst_decoder *d, pst_sequence *s);
#endif
