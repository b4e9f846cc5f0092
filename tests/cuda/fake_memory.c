/* Memory of the runtime that is made up, and copies. What is given back is not used again before
 * the next reset, so that an address there is known to be stale. See fake.h. */
#include "cuda/fake_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ALIGNMENT: the CUDA Programming Guide promises it of any memory of the runtime's. */
enum { ALIGNMENT = 256, BLOCKS = 1024 };

static struct {
    uint8_t *mem;
    size_t bytes;
    int gone, own; /* own: to be freed here */
} block[BLOCKS];
static int n_block;

void fake_memory_reset(void) {
    for (int i = 0; i < n_block; i++)
        if (block[i].gone && block[i].own) free(block[i].mem);
    n_block = 0;
}

static void note(void *mem, size_t bytes, int gone, int own) {
    if (n_block == BLOCKS) {
        fputs("more blocks of memory than the runtime of the tests counts\n", stderr);
        abort();
    }
    block[n_block].mem = mem;
    block[n_block].bytes = bytes;
    block[n_block].gone = gone;
    block[n_block++].own = own;
}

void fake_retire(void *mem, size_t bytes, int own) { note(mem, bytes, 1, own); }

int fake_is_stale(const void *words, size_t bytes) {
    for (size_t at = 0; at + sizeof(uint8_t *) <= bytes; at += sizeof(uint8_t *)) {
        const uint8_t *to;
        memcpy(&to, (const uint8_t *)words + at, sizeof to);
        for (int i = 0; i < n_block; i++)
            if (block[i].gone && to >= block[i].mem && to < block[i].mem + block[i].bytes) return 1;
    }
    return 0;
}

static cudaError_t give(void **mem, size_t bytes) {
    void *counted;
    cudaError_t error = fake_make(&counted, 1);
    if (error != cudaSuccess) return error;
    free(counted);
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    *mem = aligned_alloc(ALIGNMENT, bytes);
    if (!*mem) return fake_say(cudaErrorMemoryAllocation);
    memset(*mem, 0, bytes);
    note(*mem, bytes, 0, 1);
    return cudaSuccess;
}

static cudaError_t take(void *mem) {
    for (int i = 0; i < n_block; i++)
        if (block[i].mem == mem) block[i].gone = 1;
    return fake_drop(NULL);
}

cudaError_t cudaMalloc(void **mem, size_t bytes) {
    return bytes > fake.free_bytes ? fake_say(cudaErrorMemoryAllocation) : give(mem, bytes);
}
cudaError_t cudaFree(void *mem) { return take(mem); }
cudaError_t cudaHostAlloc(void **mem, size_t bytes, unsigned flags) {
    (void)flags;
    return give(mem, bytes);
}
cudaError_t cudaFreeHost(void *mem) { return take(mem); }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return fake_call();
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s) {
    (void)kind;
    return fake_later(s, (fake_effect){.to = to, .from = from, .bytes = bytes});
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_distance, const void *from, size_t from_distance,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind, cudaStream_t s) {
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < rows && error == cudaSuccess; i++)
        error = cudaMemcpyAsync((uint8_t *)to + i * to_distance,
                                (const uint8_t *)from + i * from_distance, bytes, kind, s);
    return error;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    cudaError_t error = fake_call();
    if (error == cudaSuccess) memset(to, value, bytes);
    return error;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s) {
    return fake_later(s, (fake_effect){.to = to, .value = (uint64_t)value, .bytes = bytes});
}
