/* A plan's report: the numbers that `penstock plan --report` shows. src/planning/page.c fills the
 * structures from the prepared plan; this component only draws. */
#ifndef PST_REPORT_PLAN_H
#define PST_REPORT_PLAN_H
#include "graph/graph.h"
#include "pipeline/layout/grid.h"
#include "report/data.h"

/* Largest number of ranks and chunks drawn; capacity of a text in bytes. */
enum { PST_PLAN_ROWS = 64, PST_PLAN_TEXT = 160, PST_PLAN_REGIONS = 11 };

/* Kinds of a rank's time: X(name, text, CSS class, help). */
/* clang-format off */
#define PST_PLAN_TIMES(X) \
    X(F, "forward", "kF", "F, without communication between tensor ranks") \
    X(B, "input gradient", "kB", "B, without recomputation") \
    X(W, "weight gradient", "kW", "W") \
    X(BW, "backward", "kBW", \
      "B and W in one pass, without recomputation") \
    X(AGAIN, "recomputation", "kagain", "activations computed again because they were not kept") \
    X(EXCHANGE, "tensor communication", "kexchange", \
      "collectives between tensor ranks, within passes") \
    X(MESSAGE, "messages", "ktransfer", \
      "idle while a message from another stage is in transit") \
    X(REPLICA, "gradient sums", "kreplica", \
      "reduction of gradients over replicas and of tied parameters, " \
      "including waits for these and for weights") \
    X(STEP, "optimizer", "kflush", "norm and optimizer step") \
    X(IDLE, "bubble", "kidle", "other idle time")
/* clang-format on */
typedef enum {
#define PST_PLAN_TIME_ENUM(name, text, css, help) PST_PLAN_##name,
    PST_PLAN_TIMES(PST_PLAN_TIME_ENUM)
#undef PST_PLAN_TIME_ENUM
        PST_PLAN_TIME_COUNT
} pst_plan_time;

/* One operator, for one micro-batch on one rank of the tensor group. */
typedef struct {
    char name[PST_NAME_MAX];
    const char *kind; /* name in the operator table */
    uint32_t chunk;
    uint64_t ns, again_ns; /* predicted time of all passes; the part of it that is recomputation */
    uint64_t flops, bytes; /* FLOPs, and bytes read and written, of F */
    uint64_t out_bytes, parameters;
} pst_plan_op;

typedef struct {
    uint32_t stage, first, end; /* the chunk has operators [first, end) */
    uint64_t ns; /* time of all passes for one micro-batch, on the slowest rank of the stage */
    uint64_t parameters;
    uint64_t crossing; /* bytes sent to the next chunk per micro-batch */
    char recompute[24];
} pst_plan_chunk;

/* Memory in use from `us` until the next sample. */
typedef struct {
    double us;
    uint64_t slots, scratch; /* bytes of activations and messages; of scratch of the running pass */
} pst_plan_held;

typedef struct {
    uint32_t rank;
    char place[PST_GRID_TEXT], device[PST_PLAN_TEXT]; /* "": unknown */
    uint64_t region[PST_PLAN_REGIONS];                /* bytes, in the order of region_name */
    /* bytes in use during the whole step; predicted peak; memory limit of the rank, 0: unknown */
    uint64_t fixed, total, capacity;
    size_t n_held;
    pst_plan_held *held; /* ascending by time */
    double us[PST_PLAN_TIME_COUNT];
} pst_plan_rank;

/* A row of the table that compares combinations of degrees. */
typedef struct {
    uint32_t pipeline, data, micro_batch, micro_batches, chunks, zero;
    char tensor[48]; /* tensor degree: "2" for all stages, or "2-1-1" for each */
    char schedule[32], recompute[32];
    uint64_t step_ns, peak_bytes;
    double bubble;
    /* possible 0: no layout with these degrees is feasible, for the reason in `why`; exact 0: step
     * and memory are estimated */
    int fits, exact, possible;
    char why[PST_PLAN_TEXT];
} pst_plan_row;

/* A device of the cluster and, if it is used, the place of the rank on it. */
typedef struct {
    uint32_t node, rank;
    int used;
    pst_grid_place place;
    char kind[24];
} pst_plan_device;

/* A row of the table of device counts, for a training of a number of tokens. NaN: unknown. */
typedef struct {
    uint32_t devices;
    int fits, chosen; /* fits 0: `why` has the reason; chosen 1: the page shows its layout */
    char layout[48], why[PST_PLAN_TEXT];
    double step_s, tokens_per_s, mfu, days, device_hours, cost, kwh, free_bytes;
    double write_s, every_s; /* of checkpoints */
    double failures, effective;
} pst_plan_count;

typedef struct {
    const char *title;
    /* a change with which the layout would fit in memory; NULL or "": unknown */
    const char *change;
    char layout[512], model[256], cluster[512], costs[256], search[512]; /* "": not shown */
    pst_grid grid;
    uint64_t step_ns, flush_ns, bound_ns; /* bound_ns: lower bound; 0: none */
    /* gap: how far the step is above the lower bound; flops_per_s: per rank, 0: unknown */
    double gap, bubble, tokens_per_s, flops_per_s;
    uint32_t n_op, n_chunk, n_rank, n_region; /* n_rank: number of ranks that are shown */
    uint32_t all_ranks;
    const char *shown; /* describes which ranks are shown; NULL: all */
    const char *region_name[PST_PLAN_REGIONS];
    pst_plan_op *op;
    pst_plan_chunk *chunk;
    pst_plan_rank *rank;
    /* predicted slices of the ranks that are shown; slice.rank is an index into `rank` */
    pst_report_trace trace;
    uint32_t n_row;
    pst_plan_row *row;
    uint32_t n_device;       /* 0: no cluster is given */
    pst_plan_device *device; /* the devices of a node are contiguous */
    uint32_t n_count;        /* 0: not asked for */
    pst_plan_count *count;
    char training[320]; /* what the counts are for */
} pst_plan_page;

/* Writes one self-contained HTML file; replaces an existing file. EINPUT: the path is not writable;
 * ENOMEM. */
pst_status pst_plan_page_write(const pst_plan_page *page, const char *path);
pst_status pst_plan_page_print(const pst_plan_page *page, FILE *out);
void pst_plan_page_release(pst_plan_page *page);

/* plan_cluster.c, plan_counts.c, plan_graph.c, plan_memory.c, plan_times.c, plan_rows.c: the
 * sections of the page.
 */
void pst_plan_draw_cluster(const pst_plan_page *page, FILE *out);
void pst_plan_draw_counts(const pst_plan_page *page, FILE *out);
void pst_plan_draw_graph(const pst_plan_page *page, FILE *out);
void pst_plan_draw_memory(const pst_plan_page *page, FILE *out);
void pst_plan_draw_times(const pst_plan_page *page, FILE *out);
void pst_plan_draw_rows(const pst_plan_page *page, FILE *out);
#endif
