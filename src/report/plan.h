/* A plan's report: what `penstock plan --report` shows, as plain numbers. Planning fills them from
 * what it has prepared (planning/page.c); nothing here computes a prediction. */
#ifndef PST_REPORT_PLAN_H
#define PST_REPORT_PLAN_H
#include "graph/graph.h"
#include "pipeline/layout/grid.h"
#include "report/data.h"

/* Ranks and chunks that are drawn one by one. */
enum { PST_PLAN_ROWS = 64, PST_PLAN_TEXT = 160 };

/* What a rank's time goes into: X(name, text, look, help). */
/* clang-format off */
#define PST_PLAN_TIMES(X) \
    X(F, "forward", "kF", "F, tensor exchanges left out") \
    X(B, "input gradient", "kB", "B, without what is computed again") \
    X(W, "weight gradient", "kW", "W") \
    X(BW, "backward", "kBW", \
      "B and W in one pass, without what is computed again") \
    X(AGAIN, "recomputation", "kagain", "activations that were not kept") \
    X(EXCHANGE, "tensor exchange", "kexchange", \
      "sums and gathers among tensor ranks, within passes") \
    X(MESSAGE, "messages", "ktransfer", \
      "nothing to compute while a message between stages is on its way here") \
    X(REPLICA, "gradient sums", "kreplica", \
      "adding gradients of replicas and of shared parameters, and waiting for them, or for " \
      "weights") \
    X(STEP, "optimizer", "kflush", "norm and step") \
    X(IDLE, "bubble", "kidle", "the rest")
/* clang-format on */
typedef enum {
#define PST_PLAN_TIME_ENUM(name, text, look, help) PST_PLAN_##name,
    PST_PLAN_TIMES(PST_PLAN_TIME_ENUM)
#undef PST_PLAN_TIME_ENUM
        PST_PLAN_TIME_COUNT
} pst_plan_time;

/* One operator, of one micro-batch on one rank of the tensor group. */
typedef struct {
    char name[PST_NAME_MAX];
    const char *kind; /* of the operator table */
    uint32_t chunk;
    uint64_t ns, again_ns; /* predicted, of all its passes; of that recomputed */
    uint64_t flops, bytes; /* of F */
    uint64_t out_bytes, parameters;
} pst_plan_op;

typedef struct {
    uint32_t stage, first, end; /* operators [first, end) */
    uint64_t ns; /* of all passes for one micro-batch, on the slowest rank of the stage */
    uint64_t parameters;
    uint64_t crossing; /* bytes to the next chunk per micro-batch */
    char recompute[16];
} pst_plan_chunk;

/* Memory in use from `us` on, until the next sample. */
typedef struct {
    double us;
    uint64_t slots, scratch; /* activations and messages that are held; of the pass that runs */
} pst_plan_held;

typedef struct {
    uint32_t rank;
    char place[PST_GRID_TEXT], device[PST_PLAN_TEXT]; /* "" not known */
    uint64_t region[8];                               /* bytes, as region_name has them */
    /* held all the time; predicted peak; what the rank may use, 0 not known */
    uint64_t fixed, total, room;
    size_t n_held;
    pst_plan_held *held; /* by time */
    double us[PST_PLAN_TIME_COUNT];
} pst_plan_rank;

/* A row of the comparison. */
typedef struct {
    uint32_t pipeline, data, micro_batch, micro_batches, chunks, zero;
    char tensor[48]; /* of all stages; "2-1-1": of each */
    char schedule[32], recompute[32];
    uint64_t step_ns, peak_bytes;
    double bubble;
    /* possible 0: no layout with these degrees, and `why` says why not */
    int fits, exact, possible;
    char why[PST_PLAN_TEXT];
} pst_plan_row;

typedef struct {
    const char *title;
    const char *change; /* with what it would fit; NULL or "": not known */
    char layout[512], model[256], cluster[512], costs[256], search[512]; /* "" leaves it out */
    pst_grid grid;
    uint64_t step_ns, flush_ns, bound_ns;          /* bound_ns 0: there is none */
    double gap, bubble, tokens_per_s, flops_per_s; /* flops_per_s: of a rank; 0 not known */
    uint32_t n_op, n_chunk, n_rank, n_region;      /* n_rank: those that are shown */
    uint32_t all_ranks;
    const char *shown; /* which ranks these are, where they are not all; else NULL */
    const char *region_name[8];
    pst_plan_op *op;
    pst_plan_chunk *chunk;
    pst_plan_rank *rank;
    /* of the ranks that are shown, predicted; slice.rank is an index of `rank` */
    pst_report_trace trace;
    uint32_t n_row;
    pst_plan_row *row;
} pst_plan_page;

/* One self-contained HTML file in place of the one that is there. EINPUT: cannot be written there;
 * ENOMEM. */
pst_status pst_plan_page_write(const pst_plan_page *page, const char *path);
pst_status pst_plan_page_print(const pst_plan_page *page, FILE *out);
void pst_plan_page_release(pst_plan_page *page);

/* plan_graph.c, plan_memory.c, plan_times.c, plan_rows.c: the page's sections. */
void pst_plan_draw_graph(const pst_plan_page *page, FILE *out);
void pst_plan_draw_memory(const pst_plan_page *page, FILE *out);
void pst_plan_draw_times(const pst_plan_page *page, FILE *out);
void pst_plan_draw_rows(const pst_plan_page *page, FILE *out);
#endif
