/* See program.h. */
#include "partition/cost/program.h"
#include "penstock/option.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Passes of kernels that are not fused: of the programs' sources, at about the time of the
 * measurements. penstock: kernels/cuda (cuBLASLt computes the activation and sums of a bias).
 * Megatron-LM of 2021: bias and GELU are one kernel, the loss is computed in fp32 by six kernels,
 * Adam of Apex with fp32 masters that are scaled, checked and copied back. Megatron Core: loss and
 * exchange are fused or overlapped. FSDP of 2023 with FlashAttention 1, as in llm-foundry: one
 * kernel per operation. llm.c: its CUDA program. */
static const pst_costs_program programs[] = {
    {.name = "penstock",
     .what = "our own engine",
     .attention = PST_ATTENTION_FIXED,
     .products = 1,
     .moves = 1,
     .launch = 3,
     .activation_b = 3,
     .optimizer = 28,
     .gradient = 4,
     .tensor = 1},
    {.name = "megatron-2021",
     .what = "Megatron-LM of 2021 and 2022: stored attention scores, exchange at the end of a step",
     .attention = PST_ATTENTION_STORED,
     .products = 1,
     .moves = 0.91,
     .launch = 4,
     .activation_f = 2,
     .activation_b = 3,
     .bias = 1,
     .residual = 3,
     .loss_f = 38,
     .loss_b = 16,
     .optimizer = 54,
     .hierarchical = 1,
     .gradient = 2,
     .tensor = 1,
     .messages = 0.8},
    {.name = "megatron-core",
     .what = "Megatron Core since 2023: cuDNN's attention, overlapped exchange, ZeRO 1",
     .attention = PST_ATTENTION_CUDNN,
     .products = 1,
     .moves = 1.33,
     .launch = 4,
     .activation_f = 2,
     .activation_b = 3,
     .residual = 3,
     .loss_f = 22,
     .loss_b = 10,
     .optimizer = 36,
     .hierarchical = 1,
     .gradient = 4,
     .overlap = 1,
     .tensor = 0.49},
    {.name = "fsdp",
     .what = "PyTorch FSDP of 2023, as in llm-foundry: FlashAttention 1, one kernel per operation",
     .attention = PST_ATTENTION_TRITON,
     .products = 1,
     .moves = 1.75,
     .launch = 6,
     .activation_f = 2,
     .activation_b = 3,
     .bias = 1,
     .residual = 3,
     .loss_f = 4,
     .loss_b = 6,
     .optimizer = 80,
     .hierarchical = 1,
     .gradient = 2,
     .tensor = 1,
     .shards = 0.98},
    {.name = "llm.c",
     .what = "llm.c: cuDNN's attention, fused loss, ZeRO 1 within a node",
     .attention = PST_ATTENTION_CUDNN,
     .products = 1,
     .moves = 1,
     .launch = 3,
     .activation_f = 2,
     .activation_b = 3,
     .bias = 1,
     .optimizer = 28,
     .hierarchical = 1,
     .gradient = 2,
     .overlap = 0.5,
     .tensor = 1}};
enum { N_PROGRAM = sizeof programs / sizeof *programs };

const pst_costs_program *pst_costs_programs(uint32_t *n) {
    *n = N_PROGRAM;
    return programs;
}

static const char *const attentions[PST_ATTENTION_COUNT] = {
    [PST_ATTENTION_STORED] = "stored",    [PST_ATTENTION_FLASH1] = "flash1",
    [PST_ATTENTION_TRITON] = "triton",    [PST_ATTENTION_FLASH2] = "flash2",
    [PST_ATTENTION_FLASH3] = "flash3",    [PST_ATTENTION_CUDNN] = "cudnn",
    [PST_ATTENTION_FIXED] = "cudnn-fixed"};

/* most: largest value. */
static const struct {
    const char *name;
    size_t offset;
    double least, most;
} keys[] = {
#define KEY(key, least, most)                                                                      \
    { #key, offsetof(pst_costs_program, key), least, most }
    KEY(attention, 0, 0),  KEY(products, 0.1, 10),    KEY(moves, 0.1, 10),
    KEY(launch, 0, 1000),  KEY(activation_f, 0, 100), KEY(activation_b, 0, 100),
    KEY(bias, 0, 100),     KEY(residual, 0, 100),     KEY(loss_f, 0, 1000),
    KEY(loss_b, 0, 1000),  KEY(optimizer, 0, 1000),   KEY(hierarchical, 0, 1),
    KEY(gradient, 0.5, 8), KEY(overlap, 0, 1),        KEY(tensor, 0, 10),
    KEY(messages, 0, 10),  KEY(shards, 0, 1)};
enum { N_KEY = sizeof keys / sizeof *keys };

/* "a, b or c" */
static const char *list(const char *const *name, size_t n, char text[256]) {
    size_t at = 0;
    for (size_t i = 0; i < n && at < 200; i++) {
        const char *before = i + 1 == n ? " or " : ", ";
        at += (size_t)snprintf(text + at, 256 - at, "%s%s", i ? before : "", name[i]);
    }
    return text;
}

static pst_status find(const char *name, pst_costs_program *program) {
    const char *names[N_PROGRAM];
    char text[256];
    for (size_t i = 0; i < N_PROGRAM; i++) names[i] = programs[i].name;
    for (size_t i = 0; i < N_PROGRAM; i++)
        if (!strcmp(names[i], name)) {
            *program = programs[i];
            return PST_OK;
        }
    const char *near = pst_did_you_mean(name, names, N_PROGRAM);
    if (near)
        return pst_fail(PST_EINPUT, "unknown program '%.40s'; did you mean '%s'?", name, near);
    return pst_fail(PST_EINPUT, "unknown program '%.40s'; expected %s", name,
                    list(names, N_PROGRAM, text));
}

static pst_status set_attention(const char *value, double *to) {
    char text[256];
    for (size_t i = 0; i < PST_ATTENTION_COUNT; i++)
        if (!strcmp(attentions[i], value)) {
            *to = (double)i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "program: unknown attention '%.40s'; expected %s", value,
                    list(attentions, PST_ATTENTION_COUNT, text));
}

static pst_status set(const char *key, const char *value, pst_costs_program *program) {
    const char *names[N_KEY];
    char text[256], *end;
    size_t i = 0;
    for (size_t k = 0; k < N_KEY; k++) names[k] = keys[k].name;
    while (i < N_KEY && strcmp(keys[i].name, key) != 0) i++;
    if (i == N_KEY)
        return pst_fail(PST_EINPUT, "program: unknown key '%.40s'; expected %s", key,
                        list(names, N_KEY, text));
    double *to = (double *)(void *)((char *)program + keys[i].offset);
    if (!keys[i].most) return set_attention(value, to);
    const double number = strtod(value, &end);
    if (end == value || *end || !(number >= keys[i].least && number <= keys[i].most))
        return pst_fail(PST_EINPUT, "program: %s: expected a number from %g to %g, found '%.40s'",
                        key, keys[i].least, keys[i].most, value);
    *to = number;
    return PST_OK;
}

pst_status pst_costs_program_parse(const char *text, pst_costs_program *program) {
    pst_costs_program p = programs[0];
    char copy[512], *rest = NULL;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return pst_fail(PST_EINPUT, "program: expected at most %zu characters", sizeof copy - 1);
    const char *word = strtok_r(copy, " ", &rest);
    PST_TRY(find(word ? word : "", &p));
    for (char *next = strtok_r(NULL, " ", &rest); next; next = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(next, '=');
        if (!value)
            return pst_fail(PST_EINPUT, "program: expected KEY=VALUE after the name, found '%.40s'",
                            next);
        *value++ = 0;
        PST_TRY(set(next, value, &p));
    }
    *program = p;
    return PST_OK;
}

/* of a link's bandwidth that rings of NCCL reach: see costs_device.c, RING_SHARE */
#define RING_SHARE 0.783
/* bytes per element of the gradients that penstock sends */
#define OWN_GRADIENT 4.0
#define WEIGHT 2.0 /* bytes per element of a gathered weight */

/* ns per byte in one direction. */
static double byte_ns(const pst_costs_replicas *r) {
    double rate = r->near > 1 ? r->within : INFINITY;
    if (r->near < r->data) rate = fmin(rate, r->near * r->between);
    if (!(rate > 0) || !isfinite(rate)) return 0;
    return (r->data - 1.0) / r->data * 1e9 / (rate * RING_SHARE);
}

double pst_costs_program_exchange_ns(const pst_costs_program *program,
                                     const pst_costs_replicas *replicas) {
    if (program->shards > 0) return 0;
    return byte_ns(replicas) * program->gradient / OWN_GRADIENT * (1 - program->overlap);
}

double pst_costs_program_shard_ns(const pst_costs_program *program,
                                  const pst_costs_replicas *replicas) {
    const double bytes = 2 * WEIGHT + program->gradient;
    return program->shards * byte_ns(replicas) * bytes * (1 - program->overlap);
}
