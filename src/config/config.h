/* The run file: one row per option gives its type, default, range, help and place in the struct.
 * YAML parsing, error messages with line and column, overrides (key=value), "did you mean" and
 * the resolved copy all use the rows. */
#ifndef PST_CONFIG_CONFIG_H
#define PST_CONFIG_CONFIG_H
#include "penstock/config.h"
#include <stdint.h>
#include <stdio.h>

/* Where a key's value came from. */
enum { PST_GIVEN_BY_FILE = 1, PST_GIVEN_BY_PLAN, PST_GIVEN_BY_OVERRIDE };

enum { PST_CONFIG_KEYS = 192 }; /* maximum number of keys of a run file */

/* The configuration that the library reads. It owns its strings, which are never NULL; 0 or ""
 * means "not given" if the row says so. Once loaded, these are resolved: name (a folder's name),
 * train.micro_batch (at most batch), train.warmup, train.decay_steps. */
struct pst_config {
    char *name;
    struct {
        /* weights: safetensors file to start from, "" none */
        char *kind, *preset, *weights, *activation;
        int64_t layers, heads, channels, context, vocabulary, image;
        int64_t token_types, max_predictions;
        char *next_sentence; /* "preset", "true" or "false" */
        char *task;          /* bert: "pretraining" or "classification" */
        char **labels;       /* names of the labels, or a single item that is their number */
        uint32_t n_labels;
        double dropout, attention_dropout;
        /* llama; tied, bias: "preset", "true" or "false" */
        int64_t kv_heads, intermediate, window, rope_context;
        char *tied, *bias, *rope_scaling;
        double norm_eps, rope_theta, rope_factor, rope_low, rope_high, rope_attention;
    } model;
    struct {
        char *kind, *tokenizer, *cache, *field, *label, *on_error, *template, *isolate, *mask;
        char **paths, **blend; /* blend: a list of numbers, as text */
        uint32_t n_path, n_blend;
        double validation;
    } data;
    struct {
        /* tokens, epochs: length of the run instead of steps, 0: not given; then `steps` is known
         * once the data is open (pst_config_set_steps) */
        int64_t tokens;
        double epochs;
        double time_limit; /* seconds; 0: none */
        int64_t steps, batch, micro_batch, seed, warmup, log_every;
        char *optimizer, *optimizer_state, *nesterov, *decay, *precision, *residual, *non_finite;
        double loss_scale, loss_scale_start, loss_scale_backoff; /* 0: dynamic in fp16, else 1 */
        int64_t loss_scale_interval;
        double warmup_given; /* value in the run file, so that a resumed run with more steps uses
                                the same share; `warmup` is the resolved number of steps */
        int64_t warmup_cut;  /* the given number of steps if it was above `steps`; else 0 */
        double decay_steps_given; /* wsd: as warmup_given, and the resolved number of steps */
        int64_t decay_steps;
        double lr, lr_min, weight_decay, beta1, beta2, eps, momentum, clip;
        double label_smoothing, z_loss;
        char *spike;
        double spike_factor;
        struct {
            int64_t from, tokens; /* samples of the first batches; tokens until `batch`; 0: off */
        } batch_warmup;
        char **decay_params; /* patterns of names */
        uint32_t n_decay_params;
        char **freeze; /* patterns of names */
        uint32_t n_freeze;
        double hang_factor, hang_slack; /* hang_slack: seconds; 0: no detection of hangs */
    } train;
    struct {
        int64_t rank;
        double alpha;
        char **on; /* groups of layers or patterns of names; none: no adapters */
        uint32_t n_on;
    } adapt;
    struct {
        int64_t every, tokens; /* tokens: 0: the whole split */
        char **sets;
        uint32_t n_sets; /* "name=path"; items with the same name stand together */
    } eval;
    struct {
        int64_t patience; /* evaluations; 0: the run does not end early */
    } stop;
    struct {
        int64_t pipeline, tensor, data, zero, threads, chunks; /* 0: not given; zero: ZeRO stage */
        char **tensors;
        uint32_t n_tensors;   /* tensor degrees as given: one for all stages (0: not given), or one
                                 for each; `tensor` is the largest */
        int64_t reproducible; /* number of gradient accumulators per use of a parameter, which fixes
                                 the order of sums; 0: off */
        int64_t reproducible_tensor; /* number of blocks of sums over tensor ranks; 0: off */
        char **replicas, **throttle, **devices; /* lists of numbers, as text */
        uint32_t n_replicas, n_throttle, n_devices;
        int64_t staleness; /* update delayed: steps between a gradient and its update */
        int64_t wait;      /* seconds to wait for all ranks to join */
        char *sequence, *schedule, *schedule_file, *cluster, *profile, *profile_force, *measured,
            *servers, *update, *device, *transport, *gradients, *exchange, *collectives, *products,
            *deterministic, *graphs, *bind;
        struct {
            char *up, *down, *stages, *links, *moments, *warm_start;
            int64_t block;      /* elements; 0: the codec's default */
            double threshold;   /* of 2bit; 0: each block's own */
            double rate;        /* of topk: share of a block's elements */
            int64_t after;      /* steps before the first one that packs anything */
            int64_t warmup;     /* of topk: steps in which more is sent, from then on */
            int64_t rank;       /* of powersgd */
            int64_t iterations; /* of powersgd */
            double min_rate;    /* of powersgd: a block must get at least this many times smaller */
            double min_bytes;   /* of the smallest parameter that is packed */
        } compress;
        struct {
            int64_t steps;   /* of an island without the others; 0: off */
            int64_t islands; /* 0: one per replica */
            int64_t fragments, delay;
            double alpha;
            char *compress; /* codec of what islands send to owners */
            struct {
                double lr, momentum;
                char *nesterov;
            } outer;
        } local;
        double memory; /* bytes that each rank may use; 0: limited only by the machine */
        char **recompute;
        uint32_t n_recompute;  /* one for all chunks, or one per chunk */
        char *post_validation; /* "true" or "false" */
        char *plan;            /* path of a plan, or "auto"; "": none */
    } parallel;
    struct {
        int64_t every, keep, keep_every;
        char *best;   /* "validation", or a name of eval.sets */
        char *metric; /* "loss" or "accuracy" */
    } checkpoint;
    struct {
        int64_t min, max; /* ranks; min 0: not elastic; max 0: no limit */
        int64_t spare;    /* processes that wait for the place of a rank */
    } elastic;
    struct {
        int64_t trace;
        char *level;
    } log;                          /* trace: the step with a timeline; 0: the last but one */
    uint8_t given[PST_CONFIG_KEYS]; /* [row] PST_GIVEN_; 0: not given */
    char *place[PST_CONFIG_KEYS];   /* [row] see pst_config_at; NULL: not given */
    char *source;                   /* path of the run file */
};
/* Returns the number of micro-batches of a step, of which the first one may be smaller. */
static inline uint32_t pst_config_micros(const pst_config *c) {
    return (uint32_t)((c->train.batch + c->train.micro_batch - 1) / c->train.micro_batch);
}
/* Finds the next key, from *next (initially 0) on, that is given but has no effect, and writes a
 * sentence to text: "train.momentum has no effect: train.optimizer is adamw"; returns 0 if there is
 * none. */
int pst_config_unused(const pst_config *config, size_t *next, char *text, size_t bytes);
/* 1: the run file or an override gives the key, with a value other than a 0 or [] that means "not
 * given". */
int pst_config_given(const pst_config *config, const char *section, const char *key);
/* 1: an override gives the key, so the user has typed it to start this run. */
int pst_config_overridden(const pst_config *config, const char *section, const char *key);
/* Puts the place where the run file or an override gives the key in front of the message of
 * `status`: "run.yaml:3:12: ..." or "override 'lr=1': ..."; nothing if neither gives it. Returns
 * `status`. For checks of a value that other components make. */
pst_status pst_config_at(const pst_config *config, const char *section, const char *key,
                         pst_status status);
/* Sets a key to the value that a plan gives, written as in an override. EINPUT if the run file or
 * an override gives another value; who: the name of the plan, for the message. */
pst_status pst_config_set_from_plan(pst_config *config, const char *section, const char *key,
                                    const char *text, const char *who);
/* 1: parallel.plan is "auto", so the run searches for a plan when it starts. */
int pst_config_is_auto(const pst_config *config);
/* Sets train.steps, and train.warmup and train.decay_steps, which may be shares of it. */
void pst_config_set_steps(pst_config *config, int64_t steps);
/* Sets model.labels. ENOMEM. */
pst_status pst_config_set_labels(pst_config *config, char *const *label, uint32_t n);
/* Returns 1 if an item of parallel.recompute leaves the number of layers to the planner. */
int pst_config_chooses_layers(const char *recompute);
/* Makes a key one that is not given: a plan may replace its value. */
void pst_config_leave_open(pst_config *config, const char *section, const char *key);
/* 1: the data has tokens of a tokenizer that is not "byte". */
int pst_config_has_tokenizer(const pst_config *config);
/* Sets a key as an override would. EINPUT, ENOMEM. */
pst_status pst_config_override(pst_config *config, const char *section, const char *key,
                               const char *text);
/* Lists the overrides with which the configuration was read, each as "section.key=value" with
 * absolute file paths. The caller owns the list and each string. ENOMEM. */
pst_status pst_config_overrides(const pst_config *config, char ***override, uint32_t *n);
/* A deep copy, which the caller closes. ENOMEM. */
pst_status pst_config_copy(const pst_config *config, pst_config **copy);
/* Prints what pst_config_print prints, but as one line "section.key: value" for each key. */
void pst_config_print_paths(const pst_config *config, FILE *out);
/* Prints the differences that affect training: "train.lr 0.001 -> 0.0005, train.steps 300 ->
 * 600"; nothing if there are none. */
void pst_config_print_changes(const pst_config *was, const pst_config *is, FILE *out);
/* Calls `show` for each key "section.key" with different values in a and b, in the order of the
 * table of keys. The values are without quotes, cut after PST_CONFIG_SHOWN bytes; of a key that an
 * automatic plan sets: "auto". */
enum { PST_CONFIG_SHOWN = 200 };
typedef void (*pst_config_show_fn)(void *arg, const char *key, const char *a, const char *b);
void pst_config_show_differences(const pst_config *a, const pst_config *b, pst_config_show_fn show,
                                 void *arg);
#endif
