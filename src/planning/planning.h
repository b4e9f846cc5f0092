/* `penstock plan RUN.yaml`: from a run file and a cluster to the best layout
 * (partition/search/search.h), its plan, and why it and no other. planning/planning.c holds it
 * together; choices, tables, the plan's file, texts and advice are files of their own. */
#ifndef PST_PLANNING_PLANNING_H
#define PST_PLANNING_PLANNING_H
#include "prepare/planned.h"
#include "partition/search/search.h"
#include "partition/cost/profile.h"
#include "penstock/run.h"
#include "pipeline/schedule/schedule.h"

/* A model's graphs and costs for degrees that were asked for. */
typedef struct {
    uint32_t layers, tensor, sequence, untied, micro_batch;
} pst_planning_part_key;
typedef struct {
    pst_planning_part_key key;
    pst_status status; /* EINPUT: it cannot be had */
    pst_graph *graph;  /* of the first tensor rank */
    /* [n operators of the whole + 1] where in `graph` what belongs to each begins */
    uint32_t n, *first;
    pst_cost_table **table; /* [n_kind] NULL: not built yet */
} pst_planning_part;

typedef struct {
    uint32_t layers;
    pst_graph *graph;
} pst_planning_whole;

typedef struct {
    const pst_config *config;
    const pst_plan_run_options *options;
    const char *cluster_text; /* as given; "": processors of this machine */
    pst_cluster *cluster;
    pst_profile *profile;         /* NULL: none */
    const char *open;             /* a key that is open although the run file gives it; "" none */
    int nominal;                  /* 1: devices are this machine's, and the following says which */
    const pst_device_ops *device; /* what computes on them; NULL: processors */
    /* of this machine's; NULL: a nominal processor core, or measured */
    const pst_device_kind *datasheet;
    int all_ranks;             /* 1: devices are ranks that are there: none may be left over */
    pst_processors processors; /* of ranks that are there */
    /* bytes that a rank may use where parallel.memory does not say; 0: what its device has */
    uint64_t memory;
    pst_model_config model;
    const pst_model_row *row;
    const pst_optim_row *optim;
    pst_search_problem problem;
    /* tensor ranks of each stage, as the run file has them; NULL: none, or all the same */
    uint32_t *degree;
    uint32_t *micros; /* of each replica, as the run file has them; NULL: open */
    uint32_t n_part, n_whole;
    pst_planning_part *part;   /* [n_part] */
    pst_planning_whole *whole; /* [n_whole] models by layers and micro-batch */
    uint32_t layers;           /* of the models that cost tables are made of */
    pst_search_result *result;
    double seconds; /* of the search */
    /* links are so slow that so many devices, the first ones, are faster alone; 0: none */
    uint32_t fewer;
    uint64_t fewer_ns;   /* their step */
    uint64_t end_ns;     /* monotonic: when --time-limit is over; UINT64_MAX: there is none */
    pst_config *settled; /* with the cluster that is planned for; NULL: nothing was prepared yet */
} pst_planning;

/* planning/planning.c. Without `out`: searches only. Close it also when it fails. */
pst_status pst_planning_search(pst_planning *x);
/* Why there is no layout, with the advice of pst_planning_change. */
pst_status pst_planning_none(const pst_planning *x, const char *change, const char *cluster);
void pst_planning_close(pst_planning *x);

/* planning/choices.c: which values may be tried of what the run file leaves open. EINPUT for
 * contradictions. */
pst_status pst_planning_choices(pst_planning *x);
/* planning/costs.c */
/* parallel.profile for this graph; before anything is searched. EINPUT: it is of something else. */
pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph);
/* A callback of the search; arg is the planning. */
pst_status pst_planning_table(void *arg, const pst_search_key *key, const pst_cost_table **table);
/* Of each of so many ranks, as a run would have it. */
uint32_t pst_planning_threads(const pst_planning *x, uint32_t ranks);
uint32_t pst_planning_isa(const pst_planning *x);
/* planning/exact.c: the layout prepared as a run would be, predictions and memory exact. */
pst_status pst_planning_prepare(pst_planning *x, const pst_candidate *found,
                                pst_prepared **prepared);
/* A callback of the search; arg is the planning. */
pst_status pst_planning_verify(void *arg, pst_candidate *candidate);
/* planning/graphs.c: graphs, kept until x is closed. */
pst_status pst_planning_part_of(pst_planning *x, const pst_planning_part_key *key,
                                pst_planning_part **part);
pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence,
                              uint32_t micro_batch, pst_planning_part **part);
/* That whose operators a plan of the layout cuts: the whole where stages have different numbers of
 * tensor ranks. */
pst_status pst_planning_graph_of(pst_planning *x, const pst_layout *layout,
                                 pst_planning_part **part);
/* How few layers do for cost tables: those of others are the same. */
pst_status pst_planning_shorten(pst_planning *x);
/* Which items of a model of n items and fewer layers come again, so many at a time: some in its
 * middle. Returns the first. */
uint32_t pst_planning_repeated(const pst_planning *x, uint32_t n, uint32_t *period);
/* planning/fold.c: where in a tensor rank's graph what belongs to each operator of the whole
 * begins, [n_node + 1], the caller's; a table of that graph becomes one of the whole's n
 * operators. */
pst_status pst_planning_fold_nodes(const pst_graph *whole, const pst_graph *part, uint32_t **first);
void pst_planning_fold_table(pst_cost_table *table, const uint32_t *first, uint32_t n);
/* planning/layout.c: what the search has found, cut in operators of the graph that a run has, with
 * a stage for each chunk; and that as a plan. Both are the caller's. */
pst_status pst_planning_layout(pst_planning *x, const pst_layout *found, pst_layout *layout);
pst_status pst_planning_plan(pst_planning *x, const pst_candidate *found, pst_plan **plan);
/* planning/file.c: the plan's file. */
pst_status pst_planning_write(pst_planning *x, const pst_candidate *found, const char *path);
/* Most micro-batches of a stage that are in flight at once; half of one where only one of two
 * chunks holds it. */
static inline double pst_planning_in_flight(const pst_candidate *candidate, uint32_t stage) {
    return (double)candidate->in_flight[stage] * candidate->layout.pipeline /
           candidate->layout.n_chunk;
}
/* planning/text.c, planning/json.c: what was found. */
pst_status pst_planning_text(pst_planning *x, FILE *out);
pst_status pst_planning_json(pst_planning *x, const char *change, const char *cluster, FILE *out);
/* "profile", "datasheet" or "nominal": where durations come from. */
const char *pst_planning_source(const pst_planning *x);
/* planning/change.c: where nothing fits, the cheapest single change that makes it fit, and the
 * smallest cluster of this kind that would do, as texts; "" where none is found. */
enum { PST_PLANNING_ADVICE = 256 };
pst_status pst_planning_change(pst_planning *x, char change[PST_PLANNING_ADVICE],
                               char cluster[PST_PLANNING_ADVICE]);

/* planning/change.c. Sets x->fewer. */
pst_status pst_planning_fewer(pst_planning *x);

/* Of the best layout: bytes that a rank on that stage may use; 0: no limit. */
uint64_t pst_planning_room(const pst_planning *x, const pst_candidate *candidate, uint32_t stage);
/* Of those that do not fit, the one that is least over; NULL: there is none. */
const pst_search_row *pst_planning_nearest(const pst_planning *x);
/* The name of its schedule. */
static inline const char *pst_planning_schedule(const pst_candidate *candidate) {
    return candidate->solved ? pst_schedule_name_of(PST_SCHEDULE_SOLVED)
                             : candidate->layout.schedule;
}
/* "2 tensor ranks", or "[2, 1] tensor ranks". Returns text. */
enum { PST_PLANNING_DEGREES = 160 };
const char *pst_planning_degrees(pst_grid grid, char text[PST_PLANNING_DEGREES]);
/* "2", or "2-1", as much of it as there is room for. Returns text. */
const char *pst_planning_short_degrees(const pst_search_row *row, char *text, size_t room);
/* "1.25 GiB". Returns text. */
const char *pst_planning_bytes(uint64_t bytes, char text[32]);
/* FLOPs of the model per second over those of all devices; 0: not known. */
double pst_planning_mfu(const pst_planning *x, const pst_candidate *candidate);
#endif
