/* The run file: one row per option gives its type, default, range, help and place in the struct;
 * YAML with line and column in every complaint, overrides (key=value), "did you mean", and the
 * resolved copy all follow from the rows. */
#ifndef PST_CONFIG_CONFIG_H
#define PST_CONFIG_CONFIG_H
#include "penstock/config.h"
#include <stdint.h>
#include <stdio.h>

/* What the library reads. Strings are owned by the config and never NULL; 0 or "" means "not given"
 * where the row says so. Once loaded, these are resolved: name (a folder's name), train.micro_batch
 * (divides batch), train.warmup. */
/* Who gave a key its value. */
enum { PST_GIVEN_BY_FILE = 1, PST_GIVEN_BY_PLAN, PST_GIVEN_BY_OVERRIDE };

struct pst_config {
    char *name;
    struct {
        /* weights: safetensors file to start from, "" none */
        char *kind, *preset, *weights, *activation;
        int64_t layers, heads, channels, context, vocabulary, image;
        double dropout;
    } model;
    struct {
        char *kind, *tokenizer;
        char **paths;
        uint32_t n_path;
        double validation;
    } data;
    struct {
        int64_t steps, batch, micro_batch, seed, warmup, log_every;
        char *optimizer, *decay, *precision, *residual, *non_finite;
        double loss_scale, loss_scale_start, loss_scale_backoff; /* 0: dynamic in fp16, else 1 */
        int64_t loss_scale_interval;
        double warmup_given; /* as it stands in the file, where it stays for a run that
                                goes on with more steps; resolved: warmup */
        int64_t warmup_cut;  /* what was given, where it was more than steps; else 0 */
        double lr, lr_min, weight_decay, beta1, beta2, eps, momentum, clip;
        double hang_factor, hang_slack; /* s; slack 0: nobody watches */
    } train;
    struct {
        int64_t every, tokens; /* tokens: 0: the whole split */
        char **sets;
        uint32_t n_sets; /* "name=path", those of a name together */
    } eval;
    struct {
        int64_t pipeline, tensor, data, zero, threads, chunks; /* 0: not given; zero: how much
                                                                  replicas share out */
        char **tensors;
        uint32_t n_tensors;   /* as given: one for all stages (0: not given), or one for each;
                                 tensor is the most of any */
        int64_t reproducible; /* parts of a step that have accumulators of their own; 0: off */
        char **replicas, **throttle, **devices; /* numbers as text */
        uint32_t n_replicas, n_throttle, n_devices;
        int64_t wait; /* s, for all ranks to arrive */
        char *sequence, *schedule, *schedule_file, *cluster, *profile, *profile_force, *measured,
            *device, *transport, *gradients, *collectives, *products, *deterministic, *graphs,
            *bind;
        double memory; /* bytes allowed per rank, 0: what the machine has */
        char **recompute;
        uint32_t n_recompute;  /* one for all chunks, or one for each */
        char *post_validation; /* "true" or "false" */
        char *plan;            /* file; "" none */
    } parallel;
    struct {
        int64_t every, keep;
    } checkpoint;
    struct {
        int64_t trace;
        char *level;
    } log;              /* trace: write the timeline of this step (0: the last but one) */
    uint8_t given[128]; /* [row] by what: PST_GIVEN_; 0: not given */
    char *source;       /* path the file came from */
    /* for complaints about the model: file:line:column, or an override */
    char *model_place;
};
/* The next key, from *next (0 at first) on, that is given and has no effect with what other keys
 * choose, as a sentence: "train.momentum is not read: train.optimizer is adamw"; 0: none. */
int pst_config_unread(const pst_config *config, size_t *next, char *text, size_t bytes);
/* 1: the run file or an override gives the key, and not as 0 or [] where that means "not given". */
int pst_config_given(const pst_config *config, const char *section, const char *key);
/* 1: an override gives it: whoever starts this run has typed it. */
int pst_config_overridden(const pst_config *config, const char *section, const char *key);
/* Sets a key, with the text as an override would have it, as another file says it has to be. EINPUT
 * when it is given otherwise; who: the other file, for the message. */
pst_status pst_config_settle(pst_config *config, const char *section, const char *key,
                             const char *text, const char *who);
/* parallel.plan is "auto": what is left open is planned when the run starts. */
int pst_config_is_auto(const pst_config *config);
/* Sets a key as an override would. EINPUT, ENOMEM. */
pst_status pst_config_override(pst_config *config, const char *section, const char *key,
                               const char *text);
/* The overrides that the configuration was read with, "section.key=value" each, with the paths of
 * files absolute: the caller's, and each text. ENOMEM. */
pst_status pst_config_overrides(const pst_config *config, char ***override, uint32_t *n);
/* Everything of `config`, with nothing shared. ENOMEM. */
pst_status pst_config_copy(const pst_config *config, pst_config **copy);
/* What pst_config_print prints, a line "section.key: value" for each key. */
void pst_config_print_paths(const pst_config *config, FILE *out);
/* "train.lr 0.001 -> 0.0005, train.steps 300 -> 600": what of the two changes what is learned;
 * nothing when they agree. */
void pst_config_print_changes(const pst_config *was, const pst_config *is, FILE *out);
#endif
