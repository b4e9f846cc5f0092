/* The files of a run's folder, read once for its report: metrics.jsonl, trace.json, plan.yaml,
 * run.yaml. The files are not trusted: invalid entries are skipped and counted; numbers are finite
 * or missing (NaN). */
#ifndef PST_REPORT_DATA_H
#define PST_REPORT_DATA_H
#include "config/config.h"
#include "pipeline/layout/grid.h"
#include "pipeline/layout/plan.h"
#include <jansson.h>

/* Curves over the steps in metrics.jsonl: X(name, key). */
/* clang-format off */
#define PST_REPORT_CURVES(X) \
    X(LOSS, "loss") \
    X(LR, "lr") \
    X(GRAD_NORM, "grad_norm") \
    X(MFU, "mfu") \
    X(TOKENS, "tokens") \
    X(STEP_MS, "step_ms") \
    X(PREDICTED_STEP_MS, "predicted_step_ms") \
    X(DATA_WAIT_MS, "data_wait_ms") \
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
    /* arena bytes written and predicted, at the last step; NaN: missing */
    double peak, predicted_peak;
    /* resident bytes of the process, maximum over all steps; NaN: missing */
    double resident;
} pst_report_memory;

typedef struct {
    size_t n, capacity;                    /* steps */
    double *step;                          /* [n] ascending */
    double *curve[PST_REPORT_CURVE_COUNT]; /* [n] NaN: missing */
    size_t n_validation, validation_capacity;
    double *validation_step, *validation_loss; /* [n_validation] ascending by step */
    json_t *sets; /* {name: {loss, tokens}} of the last line with evaluation sets; NULL: none */
    double sets_step;
    uint32_t n_rank;           /* number of ranks in `memory` */
    pst_report_memory *memory; /* [n_rank] */
    /* {kind of work: seconds, summed over ranks and steps}; the first step counts only if it is the
     * only one */
    json_t *work;
    double work_wall;    /* s: duration of the same steps times the number of ranks */
    json_t *start, *end; /* the last start and end line; NULL: none */
    double first_time;   /* time in the first start line, NaN: none */
    /* start lines; those of them that only follow from a loss or change of ranks of an elastic run;
     * its events */
    size_t n_start, n_going_on, n_recovery, n_resize;
    json_t *members; /* [[step, ranks]] of all start lines */
    size_t n_event;  /* number of events other than validation */
    /* arrays of these events: the first PST_REPORT_HEAD, and of the remaining ones the last
     * PST_REPORT_TAIL */
    json_t *head, *tail;
    /* number of lines that are not JSON objects, or have a step that is not above the previous
     * one */
    size_t n_bad;
} pst_report_metrics;

/* The kinds of time in a trace. */
typedef enum {
    PST_REPORT_F,
    PST_REPORT_B,
    PST_REPORT_W,
    PST_REPORT_BW,
    PST_REPORT_FLUSH,
    /* slice: a RECV; in sums of time: idle while a message to the rank is in transit */
    PST_REPORT_TRANSFER,
    PST_REPORT_IDLE, /* in sums of time: other idle time */
    PST_REPORT_SEND, /* slices only */
    PST_REPORT_KIND_COUNT = PST_REPORT_SEND
} pst_report_kind;

typedef struct {
    /* us since the start of the step; a RECV starts when both ends have posted it */
    double start, end;
    uint32_t rank, chunk, micro; /* RECV and SEND: `chunk` is the channel, `micro` the peer */
    uint8_t kind;                /* pst_report_kind */
    uint8_t predicted;
} pst_report_slice;

typedef struct {
    char title[200]; /* title of the measured step */
    size_t n, capacity;
    pst_report_slice *slice; /* [n] sorted by predicted, rank, start */
    uint32_t n_rank;
    double end[2]; /* us: end of the measured [0] and of the predicted [1] step; 0: none */
    size_t n_bad;  /* number of invalid events */
} pst_report_trace;

typedef struct {
    pst_report_metrics metrics;
    pst_report_trace trace;
    pst_plan *plan;             /* NULL: missing or not readable */
    pst_config *config;         /* NULL: missing or not readable */
    char *plan_text, *run_text; /* contents of the files, at most 256 KiB each; NULL: missing */
    char name[256];
    int running; /* 1: a process trains in the folder now */
} pst_report_data;
/* The grid of ranks, from run.yaml and plan.yaml; all degrees are 1 if the files are missing. */
pst_grid pst_report_grid(const pst_report_data *data);

/* Reads the files of the folder `run`; release *data also after a failure. EINPUT: there is no
 * metrics.jsonl; other files may be missing. ENOMEM. */
pst_status pst_report_read(const char *run, pst_report_data *data);
/* The same without the trace and the plan, whose members stay empty. */
pst_status pst_report_read_numbers(const char *run, pst_report_data *data);
/* Reads the plan only; data->plan stays NULL if it is missing or not readable. */
void pst_report_read_plan(const char *run, pst_report_data *data);
void pst_report_release(pst_report_data *data);
/* Read an open file into *m or *t, which must be all 0 before. ENOMEM. */
pst_status pst_report_read_metrics(FILE *file, pst_report_metrics *m);
pst_status pst_report_read_trace(FILE *file, pst_report_trace *t);
void pst_report_release_metrics(pst_report_metrics *m);
void pst_report_release_trace(pst_report_trace *t);

/* us[PST_REPORT_KIND_COUNT]: time of a rank by kind in the measured (predicted 0) or predicted (1)
 * step; all 0 if unknown. The sum is the duration of the step, unless the trace is inconsistent. */
void pst_report_times(const pst_report_trace *t, int predicted, uint32_t rank,
                      double us[PST_REPORT_KIND_COUNT]);
/* The first slice of a rank; *n: number of its slices. */
const pst_report_slice *pst_report_slices(const pst_report_trace *t, int predicted, uint32_t rank,
                                          size_t *n);

/* 1: the run used device timed, which computes nothing. */
int pst_report_is_timed(const pst_report_data *d);
/* The number at a key of an object; NaN if it is missing, not a number, or larger than 1e100. */
double pst_report_number(const json_t *object, const char *key);
/* The string at a key of an object; "" if there is none. */
const char *pst_report_text(const json_t *object, const char *key);
#endif
