/* Kernels of the runtime that is made up, and graphs of them. A graph keeps of each kernel what it
 * was given when it was captured, word for word, and does that work again when it is launched: at
 * the addresses of then, with what lies there now. See fake.h. */
#include "cuda/fake_parts.h"
#include <string.h>

enum { NODES = 64, ARGUMENTS = 768 };

typedef struct {
    uint64_t ns;
    cudaError_t error;
    fake_work work;
    size_t bytes;
    _Alignas(16) uint8_t arguments[ARGUMENTS];
} node;

struct CUgraph_st {
    int n;
    node node[NODES];
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};

/* --- kernels ---------------------------------------------------------------------------------- */

static void run(cudaStream_t stream, const node *k) {
    uint64_t end = fake_queue(stream, k->ns);
    if (end >= fake.lost_ns) return;
    if (k->error != cudaSuccess) fake_lose(end, k->error);
    else if (fake_is_stale(k->arguments, k->bytes)) fake_lose(end, cudaErrorIllegalAddress);
    else if (k->work) k->work(k->arguments);
}

static void keep(cudaStream_t stream, const node *k) {
    struct CUgraph_st *g = stream->capture;
    if (g->n == NODES) stream->broken = 1;
    else g->node[g->n++] = *k;
}

void fake_launch(cudaStream_t stream, uint64_t ns, fake_work work, const void *arguments,
                 size_t bytes) {
    node k = {.ns = ns, .work = work, .bytes = bytes};
    if (fake.unfit || bytes > ARGUMENTS) { /* the kernel is not launched: only the last error
                                              tells */
        fake_say(fake.unfit ? fake.unfit : cudaErrorInvalidValue);
        fake.unfit = cudaSuccess;
        return;
    }
    k.error = fake.fails;
    fake.fails = cudaSuccess;
    if (bytes) memcpy(k.arguments, arguments, bytes);
    if (stream->capture) keep(stream, &k);
    else run(stream, &k);
}

void fake_kernel(cudaStream_t stream, uint64_t ns, cudaError_t error) {
    fake.fails = error;
    fake_launch(stream, ns, NULL, NULL, 0);
}

/* --- graphs ----------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    if (fake.no_captures || mode != cudaStreamCaptureModeThreadLocal)
        return fake_say(cudaErrorStreamCaptureUnsupported);
    s->broken = 0;
    return fake_make((void **)&s->capture, sizeof *s->capture);
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    *graph = s->capture;
    s->capture = NULL;
    if (!s->broken) return fake_call();
    fake_drop(*graph), *graph = NULL;
    return fake_say(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    cudaError_t error = flags ? cudaErrorInvalidValue : fake_make((void **)exec, sizeof **exec);
    if (error == cudaSuccess) (*exec)->graph = *graph;
    return error;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
    (void)exec;
    return fake_breaks(s) ? fake_breaks(s) : fake_call();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    const struct CUgraph_st *g = &exec->graph;
    if (s->capture) return fake_breaks(s);
    fake.graphs++;
    for (int i = 0; i < g->n; i++) run(s, g->node + i);
    return fake_call();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return fake_drop(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return fake_drop(exec); }
