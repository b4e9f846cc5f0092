/* What the files of a run's folder say, read once for its report: metrics.jsonl, trace.json,
 * plan.yaml, run.yaml. Nothing is trusted: what cannot be read is left out and counted, numbers are
 * finite or missing (NaN). */
#ifndef PST_REPORT_DATA_H
#define PST_REPORT_DATA_H
#include "config/config.h"
#include "pipeline/layout/grid.h"
#include "pipeline/layout/plan.h"
#include <jansson.h>

/* Curves of metrics.jsonl, by step: X(name, key). */
/* clang-format off */
#define PST_REPORT_CURVES(X) \
    X(LOSS, "loss") \
    X(LR, "lr") \
    X(GRAD_NORM, "grad_norm") \
    X(MFU, "mfu") \
    X(TOKENS, "tokens") \
    X(STEP_MS, "step_ms") \
    X(PREDICTED_STEP_MS, "predicted_step_ms") \
    X(RATE, "tokens_per_s") \
    X(BUBBLE, "bubble") \
    X(PREDICTED_BUBBLE, "predicted_bubble")
/* clang-format on */
typedef enum {
#define PST_REPORT_CURVE_ENUM(name, key) PST_REPORT_##name,
    PST_REPORT_CURVES(PST_REPORT_CURVE_ENUM)
#undef PST_REPORT_CURVE_ENUM
        PST_REPORT_CURVE_COUNT
} pst_report_curve;

enum { PST_REPORT_RANKS = 4096, PST_REPORT_HEAD = 40, PST_REPORT_TAIL = 160 };

typedef struct {
    double peak, predicted_peak; /* bytes, of the last step; NaN missing */
    double resident;             /* bytes, most of all steps; NaN missing */
} pst_report_memory;

typedef struct {
    size_t n, room;                        /* steps */
    double *step;                          /* [n] ascending */
    double *curve[PST_REPORT_CURVE_COUNT]; /* [n] NaN where missing */
    size_t n_validation, validation_room;
    double *validation_step, *validation_loss; /* [n_validation] ascending by step */
    json_t *sets; /* {name: {loss, tokens}} of the last of them that has some; NULL none */
    double sets_step;
    uint32_t n_rank;           /* of the memory columns */
    pst_report_memory *memory; /* [n_rank] */
    /* {kind of work: seconds of all ranks and steps}, the first step only where it is alone */
    json_t *work;
    double work_wall;    /* seconds of the same steps, times ranks */
    json_t *start, *end; /* the last of those lines, NULL none */
    double first_time;   /* of the first start line, NaN none */
    size_t n_start;
    size_t n_event; /* lines with another event than validation */
    /* arrays of the first PST_REPORT_HEAD and the last PST_REPORT_TAIL after those */
    json_t *head, *tail;
    size_t n_bad; /* lines that are no objects, or steps that do not ascend */
} pst_report_metrics;

/* The kinds of time in a trace. */
typedef enum {
    PST_REPORT_F,
    PST_REPORT_B,
    PST_REPORT_W,
    PST_REPORT_BW,
    PST_REPORT_FLUSH,
    /* of slices: a RECV; in sums: nothing to compute while a message is on its way here */
    PST_REPORT_TRANSFER,
    PST_REPORT_IDLE, /* in sums: the rest */
    PST_REPORT_SEND, /* of slices only */
    PST_REPORT_KIND_COUNT = PST_REPORT_SEND
} pst_report_kind;

typedef struct {
    /* us since the start of the step; of a RECV: since both ends had posted it */
    double start, end;
    uint32_t rank, chunk, micro; /* RECV and SEND: chunk is the channel, micro the peer */
    uint8_t kind;                /* pst_report_kind */
    uint8_t predicted;
} pst_report_slice;

typedef struct {
    char title[200]; /* of the measured step */
    size_t n, room;
    pst_report_slice *slice; /* [n] by predicted, rank, start */
    uint32_t n_rank;
    double end[2]; /* us: the last end of what was measured, predicted; 0 none */
    size_t n_bad;  /* events that make no sense */
} pst_report_trace;

typedef struct {
    pst_report_metrics metrics;
    pst_report_trace trace;
    pst_plan *plan;             /* NULL: not there, or not readable */
    pst_config *config;         /* NULL: the same */
    char *plan_text, *run_text; /* the files as they are, at most 256 KiB; NULL not there */
    char name[256];
    int running; /* a process trains in the folder */
} pst_report_data;
/* As run.yaml and plan.yaml have it; all 1 where they are not there. */
pst_grid pst_report_grid(const pst_report_data *data);

/* run: the folder. EINPUT when it has no metrics.jsonl; everything else may be missing. */
pst_status pst_report_read(const char *run, pst_report_data *data);
void pst_report_release(pst_report_data *data);
/* Of open files; what is in m or t already must be zeros. ENOMEM only. */
pst_status pst_report_read_metrics(FILE *file, pst_report_metrics *m);
pst_status pst_report_read_trace(FILE *file, pst_report_trace *t);
void pst_report_release_metrics(pst_report_metrics *m);
void pst_report_release_trace(pst_report_trace *t);

/* us[PST_REPORT_KIND_COUNT]: how a rank spent the step, measured (0) or predicted (1); all 0 when
 * nothing is known. The sum is the step's end, unless slices overlap that should not. */
void pst_report_times(const pst_report_trace *t, int predicted, uint32_t rank,
                      double us[PST_REPORT_KIND_COUNT]);
/* The first slice of a rank, and how many it has. */
const pst_report_slice *pst_report_slices(const pst_report_trace *t, int predicted, uint32_t rank,
                                          size_t *n);

/* The run computed nothing: device timed. */
int pst_report_is_study(const pst_report_data *d);
/* A number at a key of an object; NaN when it is not there, not a number, or beyond 1e100. */
double pst_report_number(const json_t *object, const char *key);
/* A text at a key; "" when there is none. */
const char *pst_report_text(const json_t *object, const char *key);
#endif
