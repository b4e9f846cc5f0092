/* `penstock plan RUN.yaml`: finds the best layout for a run file and a cluster
 * (partition/search/search.h), writes the plan, and explains the choice. planning/command.c is the
 * command. */
#ifndef PST_PLANNING_PLANNING_H
#define PST_PLANNING_PLANNING_H
#include "prepare/planned.h"
#include "partition/search/search.h"
#include "partition/cost/profile.h"
#include "penstock/run.h"
#include "pipeline/schedule/schedule.h"

/* Graph and costs of the model for one combination of degrees. */
typedef struct {
    uint32_t layers, tensor, sequence, untied, micro_batch;
} pst_planning_part_key;
typedef struct {
    pst_planning_part_key key;
    pst_status status; /* EINPUT: infeasible; `why` gives the reason */
    char why[160];
    pst_graph *graph; /* graph of the first tensor rank */
    /* number of operators of the whole model, or of groups of them; [n + 1] index in `graph` of the
     * first operator of each */
    uint32_t n, *first;
    pst_cost_table **table; /* [n_kind] NULL: not computed yet */
} pst_planning_part;

typedef struct {
    uint32_t layers;
    pst_graph *graph;
} pst_planning_model;

enum { PST_PLANNING_OVERRIDES = 32 };
/* The step of the best layout with a number of servers. */
enum { PST_PLANNING_SERVERS = 8 };
typedef struct {
    uint32_t servers;
    uint64_t step_ns;
} pst_planning_servers;
/* The step of the best layout if replicas pack gradients and weights, and stages what they send
 * (parallel.compress). */
enum { PST_PLANNING_PACKED = 5 };
typedef struct {
    const char *up, *down, *stages;
    uint64_t step_ns;
} pst_planning_packing;

typedef struct {
    const pst_config *config;
    const pst_plan_run_options *options;
    /* the cluster as given, a file or a short form; "": the processors of this machine */
    const char *cluster_text;
    pst_cluster *cluster;
    pst_profile *profile; /* NULL: none */
    /* the program whose steps are predicted (partition/cost/program.h); no name: penstock */
    pst_costs_program program;
    /* keys of the run file that contradicted the program, or the file of --import:
     * "parallel.zero=2, not 0" */
    char override[PST_PLANNING_OVERRIDES][96];
    uint32_t n_override;
    const char *imported; /* the program of the file of --import, such as "DeepSpeed"; NULL: none */
    /* of --calibrate: measured and predicted step of the run, s, and their quotient, by which all
     * durations of computation are multiplied; 0: not given */
    double measured_s, predicted_s, factor;
    uint32_t n_operator;       /* of the model, each layer for itself */
    double parameters, frozen; /* number of parameters of the model; of those, frozen ones */
    const char *open;          /* a key that is searched although the run file sets it; "": none */
    int local;                 /* 1: the devices are those of this machine */
    const pst_device_ops *device; /* the device that computes; NULL: CPU cores */
    /* datasheet of this machine's device; NULL: costs are those of a nominal CPU core, or
     * measured */
    const pst_device_kind *datasheet;
    /* 1: the devices belong to the ranks of a running job, all of which must be used */
    int all_ranks;
    pst_processors processors; /* processors that the ranks of a running job share */
    /* bytes that a rank may use if parallel.memory is not given; 0: the memory of its device */
    uint64_t memory;
    double margin; /* share of each device's memory that is kept free; 0: none */
    /* NCCL communicators whose memory is reserved on the devices of a cluster */
    uint32_t communicators;
    pst_model_config model;
    const pst_model_row *row;
    const pst_optim_row *optim;
    pst_search_problem problem;
    /* tensor ranks of each stage, from the run file; NULL: not given, or equal for all stages */
    uint32_t *degree;
    uint32_t *micros; /* micro-batches of each replica, from the run file; NULL: searched */
    uint32_t n_part, n_model;
    pst_planning_part *part;    /* [n_part] */
    pst_planning_model *models; /* [n_model] one per number of layers and micro-batch size */
    /* layers of the short model from which cost tables are made (pst_planning_shorten) */
    uint32_t layers;
    /* of a deep model, the search cuts between layers only: operators before the first border, and
     * of a layer; 0: it cuts between any operators */
    uint32_t before_layers, layer;
    pst_search_result *result;
    int unverified; /* 1: the best layout is simulated, but not compiled */
    /* what a training of a number of tokens takes; NULL: not asked for. Borrowed */
    const struct pst_budget *budget;
    double seconds; /* duration of the search, s */
    /* > 0: the first `fewer` devices of the cluster are faster than all devices, because links are
     * slow */
    uint32_t fewer;
    uint64_t fewer_ns; /* predicted step with these devices only */
    /* parallel.servers: ranks without passes, which are not among cluster->n_device; with auto, the
     * best step with each number that was tried */
    uint32_t servers, n_tried;
    pst_planning_servers tried[PST_PLANNING_SERVERS];
    pst_planning_packing packed[PST_PLANNING_PACKED];
    uint32_t n_packed;
    /* end of --time-limit, in pst_monotonic_ns() time; UINT64_MAX: no limit */
    uint64_t end_ns;
    /* the run file completed with the cluster; NULL: nothing was prepared yet */
    pst_config *filled_config;
    /* with train.batch_warmup, of the best layout: the steps before the first whole batch, their
     * samples, and their time; all steps (0: unknown, because train.epochs is given) and theirs */
    struct {
        uint64_t from, steps, samples, run_steps;
        double ns, run_ns;
    } batches;
} pst_planning;

/* planning/planning.c. Runs the search, without output. The caller closes x, also after a
 * failure. */
pst_status pst_planning_search(pst_planning *x);
/* Prints the result of the search as the options ask, and writes the plan and the page. ENOMEM: no
 * layout fits. */
pst_status pst_planning_answer(pst_planning *x, FILE *out);
/* Returns EINPUT or ENOMEM with the reason why no layout is feasible, and the advice of
 * pst_planning_change. */
pst_status pst_planning_infeasible(const pst_planning *x, const char *change, const char *cluster);
void pst_planning_close(pst_planning *x);

/* planning/calibrate.c: sets x->factor from --calibrate. EINPUT: there is no such run, it has too
 * few steps, or it cannot be predicted on this cluster. */
pst_status pst_planning_calibrate(pst_planning *x);
/* planning/answers.c: sets *low and *high to the range in which the measured step of a layout is
 * expected, s. Returns 0 if it is unknown. */
int pst_planning_range(const pst_planning *x, const pst_candidate *candidate, double *low,
                       double *high);
/* planning/program.c */
/* Sets x->program from the text of --program, and the keys of the run file that contradict it in
 * `config`, which are listed in x->override. EINPUT: no such program. */
pst_status pst_planning_program(pst_planning *x, pst_config *config, const char *text);
/* Return 1 if the program has this value of a key of `parallel`, or this schedule. */
int pst_planning_allows_schedule(const pst_planning *x, const pst_schedule_row *row);
int pst_planning_allows(const pst_planning *x, const char *key, const char *value);
/* planning/search_space.c: sets the search space from the run file. EINPUT: keys contradict each
 * other. */
pst_status pst_planning_search_space(pst_planning *x);
/* planning/servers.c: sets the search space and searches, with servers if the run file has them.
 * EINPUT: too few devices, or keys with which servers do not go. */
pst_status pst_planning_search_servers(pst_planning *x);
/* Gives a layout of the search its servers, on devices that it does not use. EINPUT: their number
 * is no multiple of stages x tensor ranks. ENOMEM. */
pst_status pst_planning_add_servers(const pst_planning *x, pst_candidate *candidate);
/* planning/costs.c */
/* Loads parallel.profile for this graph, before the search. EINPUT: the profile does not match the
 * graph. */
pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph);
/* Callback of the search: the cost table for a key; arg is the pst_planning. */
pst_status pst_planning_table(void *arg, const pst_search_key *key, const pst_cost_table **table);
/* Threads per rank in a run with `ranks` ranks. */
uint32_t pst_planning_threads(const pst_planning *x, uint32_t ranks);
uint32_t pst_planning_isa(const pst_planning *x);
/* planning/exact.c: prepares a found layout as a run would, with exact memory and simulated times.
 * The caller closes *prepared. */
pst_status pst_planning_prepare(pst_planning *x, const pst_candidate *found,
                                pst_prepared **prepared);
/* Sets x->batches, for the best layout. EINPUT: it cannot run the smaller batches. */
pst_status pst_planning_batches(pst_planning *x);
/* Callback of the search: verifies a candidate with pst_planning_prepare; arg is the pst_planning.
 */
pst_status pst_planning_verify(void *arg, pst_candidate *candidate);
/* Returns about how many seconds that takes. */
double pst_planning_verify_s(const void *arg, const pst_candidate *candidate);
/* planning/graphs.c: graphs, cached until x is closed. */
pst_status pst_planning_part_of(pst_planning *x, const pst_planning_part_key *key,
                                pst_planning_part **part);
pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence,
                              uint32_t micro_batch, pst_planning_part **part);
/* The graph that the cut of a plan refers to: that of the first tensor rank or, if stages have
 * different numbers of tensor ranks, the unsplit model. */
pst_status pst_planning_graph_of(pst_planning *x, const pst_layout *layout,
                                 pst_planning_part **part);
/* Chooses the number of layers of the short model, and whether the search cuts between layers only.
 * Cost tables are made for the short model and extended to all layers by repetition. */
pst_status pst_planning_shorten(pst_planning *x);
/* Which of n items of the short model are repeated for the whole model: *period items in the
 * middle; returns the index of the first. */
uint32_t pst_planning_repeated(const pst_planning *x, uint32_t n, uint32_t *period);
/* planning/fold.c: *first: [whole->n_node + 1] index in a tensor rank's graph `part` at which each
 * operator of the whole model begins; the caller frees it. fold_table reduces a cost table of
 * `part` to the n operators of the whole model. */
pst_status pst_planning_fold_nodes(const pst_graph *whole, const pst_graph *part, uint32_t **first);
/* Keeps only the first operator of each group of operators: those before the first border, each
 * layer, and the rest (x->before_layers, x->layer). Returns the number of groups. */
uint32_t pst_planning_group_layers(const pst_planning *x, uint32_t *first, uint32_t n);
void pst_planning_fold_table(pst_cost_table *table, const uint32_t *first, uint32_t n);
/* planning/layout.c: converts a layout of the search into the run's layout, with the cut in
 * operators of the run's graph and a stage for each chunk, or into a plan. The caller closes the
 * result. */
pst_status pst_planning_layout(pst_planning *x, const pst_layout *found, pst_layout *layout);
pst_status pst_planning_plan(pst_planning *x, const pst_candidate *found, pst_plan **plan);
/* planning/file.c: writes the plan file. */
pst_status pst_planning_write(pst_planning *x, const pst_candidate *found, const char *path);
/* Largest number of micro-batches that a stage has in flight at once, as a mean over the stage's
 * chunks. */
static inline double pst_planning_in_flight(const pst_candidate *candidate, uint32_t stage) {
    return (double)candidate->in_flight[stage] * candidate->layout.pipeline /
           candidate->layout.n_chunk;
}
/* planning/export.c: EINPUT: no program of this name is known. Prints the best layout as flags or
 * configuration of the program x->options->export_, and logs what has no counterpart there. */
pst_status pst_planning_check_export(const char *program);
pst_status pst_planning_export(const pst_planning *x, FILE *out);
/* Sets *even: every chunk of the layout has equally many layers. */
pst_status pst_planning_is_even(const pst_planning *x, const pst_layout *layout, int *even);
/* planning/import.c: replaces keys of `config` by the layout and sizes that the file of --import
 * gives, lists replaced ones in x->override, logs what has no counterpart, and sets *program to the
 * profile that fits. EINPUT. */
pst_status pst_planning_import(pst_planning *x, pst_config *config, const char **program);
/* planning/text.c, planning/json.c: print the result to `out`. */
pst_status pst_planning_text(pst_planning *x, FILE *out);
pst_status pst_planning_json(pst_planning *x, const char *change, const char *cluster, FILE *out);
/* "profile", "datasheet" or "nominal": the source of durations. */
const char *pst_planning_source(const pst_planning *x);
/* planning/change.c: if no layout fits in memory: the change of one key that makes a layout fit at
 * the shortest step, and the smallest cluster of this kind on which a layout fits, as texts; "":
 * none was found. */
enum { PST_PLANNING_ADVICE = 256 };
pst_status pst_planning_change(pst_planning *x, char change[PST_PLANNING_ADVICE],
                               char cluster[PST_PLANNING_ADVICE]);

/* planning/change.c. Sets x->fewer and x->fewer_ns. */
pst_status pst_planning_fewer(pst_planning *x);

/* planning/compress.c. Sets x->packed, for the best layout, if its replicas are on several nodes
 * with CPUs and the run file packs nothing; packed messages change results. */
pst_status pst_planning_compress(pst_planning *x);
/* The packing with the shortest step, if it is shorter than without; else NULL. */
const pst_planning_packing *pst_planning_best_packing(const pst_planning *x);

/* planning/margin.c: sets the memory that ranks may use on each device of x->cluster: without what
 * driver, context, libraries and NCCL take, and without the margin. EINPUT: --margin is no share,
 * or leaves no memory. */
pst_status pst_planning_margin(pst_planning *x);
/* Whether a device of x->cluster is a GPU. */
int pst_planning_is_gpu(const pst_planning *x, const pst_cluster_device *d);
/* Prints the memory of a device, and what is subtracted; prints nothing if nothing is. */
void pst_planning_print_margin(const pst_planning *x, FILE *out);
/* Bytes of memory that each rank of this stage may use; 0: no limit. */
uint64_t pst_planning_capacity(const pst_planning *x, const pst_candidate *candidate,
                               uint32_t stage);
/* Of the rows whose layouts do not fit in memory, the one that exceeds its limit by the fewest
 * bytes; NULL: there is no such row. */
const pst_search_row *pst_planning_nearest(const pst_planning *x);
/* Name of the candidate's schedule. */
static inline const char *pst_planning_schedule(const pst_candidate *candidate) {
    return candidate->solved ? pst_schedule_name_of(PST_SCHEDULE_SOLVED)
                             : candidate->layout.schedule;
}
/* Formats the tensor degrees: "2 tensor ranks" or, if stages differ, "[2, 1] tensor ranks". Returns
 * text. */
enum { PST_PLANNING_DEGREES = 160 };
const char *pst_planning_degrees(pst_grid grid, char text[PST_PLANNING_DEGREES]);
/* The same as "2" or "2-1", truncated to `capacity` bytes. Returns text. */
const char *pst_planning_short_degrees(const pst_search_row *row, char *text, size_t capacity);
/* Format a number, and return text: all digits, "1,068"; with four significant digits and grouped
 * thousands, "568,800"; with a decimal unit, "300B". NaN: "-". */
const char *pst_planning_count(uint64_t count, char text[32]);
const char *pst_planning_whole(double value, char text[32]);
const char *pst_planning_short(double value, char text[32]);
/* Formats a number of bytes: "1.25 GiB". Returns text. */
const char *pst_planning_bytes(uint64_t bytes, char text[32]);
/* Model FLOP/s utilisation: model FLOPs per second divided by the peak FLOP/s of all devices; 0:
 * unknown. */
double pst_planning_mfu(const pst_planning *x, const pst_candidate *candidate);
#endif
