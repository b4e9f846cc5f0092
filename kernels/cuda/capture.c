/* Launches that are captured in CUDA graphs: what runs in the compute stream between begin and end,
 * in its order. A graph is a chain of kernels with the arguments of the capture. Only the sample's
 * number changes between replays: it is in device memory, and a kernel before the graph sets it.
 * Events and numbers of launches are recorded outside (device.c), after the graph as after any
 * launch. The capture is local to this thread: copies (checkpoints) and allocations of other
 * threads neither enter nor end it. */
#include "base/status.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/own.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct graph graph;
struct graph {
    graph *next;
    cudaGraphExec_t exec;
    int samples;    /* a kernel reads the sample's number */
    char name[192]; /* for messages about failures */
};

struct pst_cuda_captures {
    graph *first;
    uint64_t *sample; /* in device memory */
    /* State of the current capture. */
    int under_way, samples;
    uint32_t n;
    const char *from, *to;
};

static pst_status open_captures(pst_cuda_device *d) {
    struct pst_cuda_captures *c = d->captures;
    void *sample = NULL;
    if (!c && !(c = d->captures = calloc(1, sizeof *c)))
        return pst_fail(PST_ENOMEM, "no memory for captured CUDA graphs");
    if (c->sample) return PST_OK;
    PST_TRY(pst_cuda_status(cudaMalloc(&sample, sizeof *c->sample),
                            "allocating memory for the sample's number"));
    c->sample = sample;
    return PST_OK;
}

static void graph_close(graph *g) {
    if (g->exec) cudaGraphExecDestroy(g->exec);
    free(g);
}

void pst_cuda_captures_close(pst_cuda_device *d) {
    struct pst_cuda_captures *c = d->captures;
    if (!c) return;
    for (graph *g = c->first, *next; g; g = next) {
        next = g->next;
        graph_close(g);
    }
    if (c->sample) cudaFree(c->sample);
    free(c);
    d->captures = NULL;
}

/* --- capturing -------------------------------------------------------------------------------- */

int pst_cuda_capturing(const pst_device *device) {
    const struct pst_cuda_captures *c = ((const pst_cuda_device *)device)->captures;
    return c && c->under_way;
}

const uint64_t *pst_cuda_sample_of(pst_device *device) {
    struct pst_cuda_captures *c = ((pst_cuda_device *)device)->captures;
    if (!c || !c->under_way) return NULL;
    c->samples = 1;
    return c->sample;
}

pst_status pst_cuda_capture_begin(pst_device *device) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    PST_TRY(pst_cuda_status(cudaSetDevice(d->ordinal), "the GPU"));
    PST_TRY(open_captures(d));
    PST_TRY(pst_cuda_status(
        cudaStreamBeginCapture(pst_cuda_stream(device), cudaStreamCaptureModeThreadLocal),
        "beginning a capture"));
    d->captures->under_way = 1;
    d->captures->samples = 0;
    d->captures->n = 0;
    return PST_OK;
}

pst_status pst_cuda_capture_launch(pst_device *device, pst_launch_fn fn, const void *call,
                                   const uint64_t *event) {
    struct pst_cuda_captures *c = ((pst_cuda_device *)device)->captures;
    if (event) return pst_fail(PST_EINTERNAL, "recording an event in a capture");
    pst_cuda_take_name();
    pst_status status = fn(device, call);
    const char *name = pst_cuda_take_name();
    c->to = name ? name : "an operator";
    if (!c->n++) c->from = c->to;
    return status;
}

/* This allocates the graph's device memory now. */
static cudaError_t make(pst_cuda_device *d, cudaGraph_t of, graph *g) {
    const struct pst_cuda_captures *c = d->captures;
    g->samples = c->samples;
    if (c->n == 1) snprintf(g->name, sizeof g->name, "%s", c->from);
    else
        snprintf(g->name, sizeof g->name, "one of %u captured operators, from %s to %s,", c->n,
                 c->from, c->to);
    cudaError_t error = cudaGraphInstantiate(&g->exec, of, 0);
    return error == cudaSuccess ? cudaGraphUpload(g->exec, pst_cuda_stream(&d->base)) : error;
}

static pst_status keep(pst_cuda_device *d, cudaGraph_t of, void **launches) {
    graph *g = calloc(1, sizeof *g);
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a CUDA graph");
    cudaError_t error = make(d, of, g);
    if (error != cudaSuccess) {
        cudaGetLastError();
        graph_close(g);
        return pst_cuda_status(error, "creating a CUDA graph");
    }
    g->next = d->captures->first;
    d->captures->first = g;
    *launches = g;
    return PST_OK;
}

pst_status pst_cuda_capture_end(pst_device *device, void **launches) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    cudaGraph_t made = NULL;
    d->captures->under_way = 0;
    cudaError_t error = cudaStreamEndCapture(pst_cuda_stream(device), &made);
    if (error != cudaSuccess) cudaGetLastError();
    pst_status status = launches ? pst_cuda_status(error, "capturing launches") : PST_OK;
    if (status == PST_OK && launches) status = keep(d, made, launches);
    if (made) cudaGraphDestroy(made);
    return status;
}

/* --- again ------------------------------------------------------------------------------------ */

pst_status pst_cuda_replay(pst_device *device, const void *call) {
    const pst_captured *again = call;
    const graph *g = again->launches;
    if (g->samples)
        pst_cuda_set(pst_cuda_stream(device), ((pst_cuda_device *)device)->captures->sample,
                     again->sample);
    cudaError_t error = cudaGraphLaunch(g->exec, pst_cuda_stream(device));
    PST_TRY(pst_cuda_launched(g->name));
    return pst_cuda_status(error, g->name);
}
