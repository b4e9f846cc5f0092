/* `penstock plan RUN.yaml`: from a run file and a cluster to the best layout
 * (partition/search/search.h), its plan, and the reasons. planning/planning.c is the command. */
#ifndef PST_PLANNING_PLANNING_H
#define PST_PLANNING_PLANNING_H
#include "prepare/planned.h"
#include "partition/search/search.h"
#include "partition/cost/profile.h"
#include "penstock/run.h"
#include "pipeline/schedule/schedule.h"

/* A model's graph and costs for one combination of degrees. */
typedef struct {
    uint32_t layers, tensor, sequence, untied, micro_batch;
} pst_planning_part_key;
typedef struct {
    pst_planning_part_key key;
    pst_status status; /* EINPUT: infeasible, and why says so */
    char why[160];
    pst_graph *graph; /* of the first tensor rank */
    /* [n operators of the whole model + 1] where each begins in `graph` */
    uint32_t n, *first;
    pst_cost_table **table; /* [n_kind] NULL: not computed yet */
} pst_planning_part;

typedef struct {
    uint32_t layers;
    pst_graph *graph;
} pst_planning_model;

typedef struct {
    const pst_config *config;
    const pst_plan_run_options *options;
    const char *cluster_text; /* cluster as given: file or short form; "": processors of this
                                 machine */
    pst_cluster *cluster;
    pst_profile *profile; /* NULL: none */
    const char *open;     /* a key that is searched although the run file gives it; "": none */
    int local;            /* 1: the devices are this machine's */
    const pst_device_ops *device; /* the device that computes; NULL: CPU cores */
    /* datasheet of this machine's device; NULL: a nominal CPU core, or measured */
    const pst_device_kind *datasheet;
    int all_ranks;             /* 1: the devices are existing ranks, which must all be used */
    pst_processors processors; /* processors of existing ranks */
    /* bytes that a rank may use if parallel.memory is not given; 0: the memory of its device */
    uint64_t memory;
    pst_model_config model;
    const pst_model_row *row;
    const pst_optim_row *optim;
    pst_search_problem problem;
    /* tensor ranks of each stage from the run file; NULL: not given, or all equal */
    uint32_t *degree;
    uint32_t *micros; /* of each replica from the run file; NULL: open */
    uint32_t n_part, n_model;
    pst_planning_part *part;    /* [n_part] */
    pst_planning_model *models; /* [n_model] one per number of layers and micro-batch size */
    uint32_t layers;            /* layers of the short model for cost tables */
    pst_search_result *result;
    double seconds; /* duration of the search */
    /* > 0: the first `fewer` devices are faster alone, because links are slow */
    uint32_t fewer;
    uint64_t fewer_ns;         /* step of these first devices alone */
    uint64_t end_ns;           /* monotonic end of --time-limit; UINT64_MAX: no limit */
    pst_config *filled_config; /* the run file with the cluster filled in; NULL: nothing was
                                  prepared yet */
} pst_planning;

/* planning/planning.c. The search without output. Close it also when it fails. */
pst_status pst_planning_search(pst_planning *x);
/* Fails with the reason why there is no layout, and the advice of pst_planning_change. */
pst_status pst_planning_infeasible(const pst_planning *x, const char *change, const char *cluster);
void pst_planning_close(pst_planning *x);

/* planning/search_space.c: sets the search space from the run file. EINPUT: contradictions. */
pst_status pst_planning_search_space(pst_planning *x);
/* planning/costs.c */
/* Loads parallel.profile for this graph, before the search. EINPUT: the profile does not match the
 * graph. */
pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph);
/* Callback of the search; arg is the planning. */
pst_status pst_planning_table(void *arg, const pst_search_key *key, const pst_cost_table **table);
/* Threads per rank, as in a run with so many ranks. */
uint32_t pst_planning_threads(const pst_planning *x, uint32_t ranks);
uint32_t pst_planning_isa(const pst_planning *x);
/* planning/exact.c: prepares the layout as a run would, with exact predictions and memory. */
pst_status pst_planning_prepare(pst_planning *x, const pst_candidate *found,
                                pst_prepared **prepared);
/* Callback of the search; arg is the planning. */
pst_status pst_planning_verify(void *arg, pst_candidate *candidate);
/* planning/graphs.c: graphs, cached until x is closed. */
pst_status pst_planning_part_of(pst_planning *x, const pst_planning_part_key *key,
                                pst_planning_part **part);
pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence,
                              uint32_t micro_batch, pst_planning_part **part);
/* The graph whose operators a plan of the layout cuts: unsplit where stages have different numbers
 * of tensor ranks. */
pst_status pst_planning_graph_of(pst_planning *x, const pst_layout *layout,
                                 pst_planning_part **part);
/* Chooses the layers of the short model, whose cost tables are repeated for all layers. */
pst_status pst_planning_shorten(pst_planning *x);
/* The items of the short model (n of them) that repeat, in its middle: returns the first, *period
 * is their number. */
uint32_t pst_planning_repeated(const pst_planning *x, uint32_t n, uint32_t *period);
/* planning/fold.c: where each operator of the whole model begins in a tensor rank's graph, [n_node
 * + 1], the caller's; and a cost table of that graph reduced to n operators of the whole model. */
pst_status pst_planning_fold_nodes(const pst_graph *whole, const pst_graph *part, uint32_t **first);
void pst_planning_fold_table(pst_cost_table *table, const uint32_t *first, uint32_t n);
/* planning/layout.c: a layout of the search with its cut in operators of the run's graph and a
 * stage for each chunk; and the same as a plan. Both are the caller's. */
pst_status pst_planning_layout(pst_planning *x, const pst_layout *found, pst_layout *layout);
pst_status pst_planning_plan(pst_planning *x, const pst_candidate *found, pst_plan **plan);
/* planning/file.c: writes the plan file. */
pst_status pst_planning_write(pst_planning *x, const pst_candidate *found, const char *path);
/* Most micro-batches of a stage in flight at once; a half where one of two chunks holds one. */
static inline double pst_planning_in_flight(const pst_candidate *candidate, uint32_t stage) {
    return (double)candidate->in_flight[stage] * candidate->layout.pipeline /
           candidate->layout.n_chunk;
}
/* planning/text.c, planning/json.c: print the result. */
pst_status pst_planning_text(pst_planning *x, FILE *out);
pst_status pst_planning_json(pst_planning *x, const char *change, const char *cluster, FILE *out);
/* "profile", "datasheet" or "nominal": the source of durations. */
const char *pst_planning_source(const pst_planning *x);
/* planning/change.c: where nothing fits, the cheapest single change that makes a layout fit, and
 * the smallest cluster of this kind on which one fits, as texts; "": none was found. */
enum { PST_PLANNING_ADVICE = 256 };
pst_status pst_planning_change(pst_planning *x, char change[PST_PLANNING_ADVICE],
                               char cluster[PST_PLANNING_ADVICE]);

/* planning/change.c. Sets x->fewer. */
pst_status pst_planning_fewer(pst_planning *x);

/* Bytes that a rank of this stage may use; 0: no limit. */
uint64_t pst_planning_capacity(const pst_planning *x, const pst_candidate *candidate,
                               uint32_t stage);
/* The row where nothing fits that exceeds its memory least; NULL: none. */
const pst_search_row *pst_planning_nearest(const pst_planning *x);
/* The name of its schedule. */
static inline const char *pst_planning_schedule(const pst_candidate *candidate) {
    return candidate->solved ? pst_schedule_name_of(PST_SCHEDULE_SOLVED)
                             : candidate->layout.schedule;
}
/* "2 tensor ranks", or "[2, 1] tensor ranks". Returns text. */
enum { PST_PLANNING_DEGREES = 160 };
const char *pst_planning_degrees(pst_grid grid, char text[PST_PLANNING_DEGREES]);
/* "2", or "2-1", cut off at `capacity` bytes. Returns text. */
const char *pst_planning_short_degrees(const pst_search_row *row, char *text, size_t capacity);
/* "1.25 GiB". Returns text. */
const char *pst_planning_bytes(uint64_t bytes, char text[32]);
/* Model FLOPs per second over the peak of all devices; 0: unknown. */
double pst_planning_mfu(const pst_planning *x, const pst_candidate *candidate);
#endif
