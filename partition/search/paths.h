/* Paths through the order of a schedule. The order of passes is a graph: a pass follows the pass
 * before it on its rank, and the pass whose output it needs. The time of a path is a sum over its
 * passes, so it is linear in the durations of the chunks. */
#ifndef PST_PARTITION_SEARCH_PATHS_H
#define PST_PARTITION_SEARCH_PATHS_H
#include "partition/search/space.h"

/* A pass. before, input: the pass before it on its rank, and the one whose output it needs;
 * PST_NONE: none. hop: the chunk before the border that its input crosses; PST_NONE: its input is
 * on the same rank. */
typedef struct {
    uint32_t before, input, hop, rank;
    uint16_t chunk;
    uint8_t opcode, first; /* first: 1: of the first micro-batch */
} pst_search_pass;

typedef struct pst_search_paths {
    uint32_t schedule, pipeline, chunks, n_micro; /* key */
    uint32_t n, n_chunk;
    pst_search_pass *pass; /* [n] each after those that it follows */
    uint32_t *last;        /* [pipeline] the last pass of each rank */
    double *end;           /* [n] when passes end, set by pst_search_paths_run */
} pst_search_paths;

/* Durations in ns. */
typedef struct {
    const double *f, *b, *w; /* [n_chunk] of the passes of one micro-batch */
    const double *hop;       /* [n_chunk] of the message from a chunk to the next one */
    const double *release;   /* [pipeline] nothing runs on a rank before */
    double first;            /* part of these times that the first micro-batch takes */
} pst_search_durations;

/* How often each chunk's passes are on a path, the ns of its messages, how many passes and messages
 * it has, and the rank whose release it begins with. */
typedef struct {
    double *f, *b, *w; /* [n_chunk] those of the first micro-batch count as its part */
    double hops_ns;
    uint32_t n, rank;
} pst_search_path;

/* Sets *paths to the graph of a configuration's schedule with m micro-batches; the context owns it,
 * and it is valid until the next call. NULL: it has more than PST_SEARCH_PATH_PASSES passes.
 * ENOMEM. */
enum { PST_SEARCH_PATH_PASSES = 1 << 18 };
pst_status pst_search_paths_of(pst_search_context *x, const pst_search_config *c, uint32_t m,
                               const pst_search_paths **paths);
void pst_search_paths_close(pst_search_paths *paths);
/* Sets paths->end. */
void pst_search_paths_run(const pst_search_paths *paths, const pst_search_durations *ns);
/* Sets *path to a longest path to the end of a pass, by the durations of the last run. The caller
 * owns the lists of *path. */
void pst_search_paths_trace(const pst_search_paths *paths, const pst_search_durations *ns,
                            uint32_t pass, pst_search_path *path);
#endif
