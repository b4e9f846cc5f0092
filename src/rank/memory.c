/* The memory of a rank: an arena of the host, or one block of a device whose memory the host cannot
 * access. All reading and writing of the latter is copying, and written bytes are found by a fill
 * pattern that is not a number in fp32, bf16 or fp16. */
#include "rank/rank.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum { UNTOUCHED = 0xff };

static const pst_device_ops *ops_of(const pst_rank *r) { return r->device->ops; }

static pst_status open_on_device(pst_rank *r, int canary) {
    uint64_t bytes = r->memory->total, all = bytes + PST_ARENA_CANARY_BYTES;
    void *base;
    PST_TRY(ops_of(r)->memory(r->device, all, &base));
    r->arena = (pst_arena){.base = base, .bytes = bytes, .canary = canary != 0};
    PST_TRY(ops_of(r)->staging(r->device, PST_RANK_BOUNCE, &r->bounce));
    PST_TRY(pst_rank_fill(r, base, canary ? UNTOUCHED : 0, bytes));
    return pst_rank_fill(r, r->arena.base + bytes, UNTOUCHED, PST_ARENA_CANARY_BYTES);
}

pst_status pst_rank_fill_pads(const pst_rank *r) {
    for (uint32_t p = 0; p < r->graph->n_param; p++) {
        const pst_param *param = r->graph->param + p;
        if (!param->pad || r->memory->weight[p] == UINT64_MAX || r->memory->serves) continue;
        uint8_t *weight = pst_rank_on_side(r, r->memory->weight[p], r->side),
                *end = weight + pst_param_bytes(r->graph, param);
        PST_TRY(pst_rank_fill(r, end, 0, pst_param_pad_bytes(r->graph, param)));
    }
    return PST_OK;
}

pst_status pst_rank_memory_open(pst_rank *r, int canary) {
    PST_TRY(r->on_device ? open_on_device(r, canary)
                         : pst_arena_open(r->memory->total, canary, &r->arena));
    return pst_rank_fill_pads(r);
}

void pst_rank_memory_close(pst_rank *r) {
    if (!r->on_device) pst_arena_close(&r->arena); /* else the device frees it */
}

/* --- memory files ----------------------------------------------------------------------------- */

/* Before a side, a file has room for a description of what is in it, which only takes memory when
 * it is written. */
static const uint64_t BEFORE_SIDE = 64u << 20, HUGE_BYTES = 2u << 20;

const uint8_t *pst_rank_side(const pst_rank *r, uint32_t side) {
    return r->arena.base + (side ? r->memory->twin : r->memory->twin_from);
}

/* Reserves all memory, so that no write fails later. */
static int map_side(const pst_rank *r, uint32_t side, int fd, uint64_t at) {
    const uint64_t bytes = r->memory->twin_to - r->memory->twin_from;
    void *where = (void *)(uintptr_t)pst_rank_side(r, side);
    struct stat st;
    if (fstat(fd, &st)) return errno;
    if ((uint64_t)st.st_size < at + bytes && ftruncate(fd, (off_t)(at + bytes))) return errno;
    if (mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)at) != where)
        return errno;
    return posix_fallocate(fd, (off_t)at, (off_t)bytes);
}

void pst_rank_enlarge_pages(const pst_rank *r) {
    const uint64_t bytes = r->memory->twin_to - r->memory->twin_from;
    for (uint32_t side = 0; side < 2 && bytes >= HUGE_BYTES; side++)
        madvise((void *)(uintptr_t)pst_rank_side(r, side), bytes, MADV_COLLAPSE);
}

pst_status pst_rank_share_state(pst_rank *r, const int fd[2], uint64_t at[2]) {
    const uint64_t bytes = r->memory->twin_to - r->memory->twin_from;
    int failed = 0;
    for (uint32_t side = 0; side < 2 && bytes && !failed; side++) {
        at[side] = BEFORE_SIDE + (uintptr_t)pst_rank_side(r, side) % HUGE_BYTES;
        failed = map_side(r, side, fd[side], at[side]);
    }
    if (failed)
        return pst_fail(PST_ENOMEM,
                        "no memory for the state of rank %u, which --elastic keeps twice, 2 x "
                        "%.1f MiB: %s; use fewer ranks per host, or omit --elastic",
                        r->rank, (double)bytes / 0x1p20, strerror(failed));
    return pst_rank_fill_pads(r);
}

/* --- between host and device ------------------------------------------------------------------ */

static pst_status copy_now(const pst_rank *r, void *to, const void *from, uint64_t bytes) {
    return bytes ? ops_of(r)->copy(r->device, PST_Q_COMPUTE, to, from, bytes, NULL) : PST_OK;
}

pst_status pst_rank_read(const pst_rank *r, void *to, const void *from, uint64_t bytes) {
    if (r->on_device) return copy_now(r, to, from, bytes);
    memcpy(to, from, bytes);
    return PST_OK;
}

pst_status pst_rank_read_aside(void *rank, void *to, const void *from, uint64_t bytes) {
    pst_device *d = ((pst_rank *)rank)->device;
    return d->ops->copy(d, PST_Q_HEAD, to, from, bytes, NULL);
}

pst_status pst_rank_write(const pst_rank *r, void *to, const void *from, uint64_t bytes) {
    if (r->on_device) return copy_now(r, to, from, bytes);
    memcpy(to, from, bytes);
    return PST_OK;
}

static pst_status queue_copy(const pst_rank *r, pst_queue queue, void *to, const void *from,
                             uint64_t bytes) {
    uint64_t event;
    if (r->on_device) return ops_of(r)->copy(r->device, queue, to, from, bytes, &event);
    memcpy(to, from, bytes);
    return PST_OK;
}

pst_status pst_rank_copy(const pst_rank *r, void *to, const void *from, uint64_t bytes) {
    return queue_copy(r, PST_Q_COMPUTE, to, from, bytes);
}

pst_status pst_rank_copy_beside(const pst_rank *r, void *to, const void *from, uint64_t bytes) {
    return queue_copy(r, PST_Q_SIDE, to, from, bytes);
}

pst_status pst_rank_fill(const pst_rank *r, void *to, uint8_t value, uint64_t bytes) {
    if (r->on_device) return ops_of(r)->fill(r->device, PST_Q_COMPUTE, to, value, bytes);
    memset(to, value, bytes);
    return PST_OK;
}

pst_status pst_rank_wait(const pst_rank *r) {
    const void *host;
    return r->on_device ? pst_rank_peek(r, r->arena.base, 1, &host) : PST_OK;
}

pst_status pst_rank_wait_beside(const pst_rank *r) {
    if (!r->on_device) return PST_OK;
    return ops_of(r)->copy(r->device, PST_Q_SIDE, r->bounce, r->arena.base, 1, NULL);
}

pst_status pst_rank_peek(const pst_rank *r, const void *at, uint64_t bytes, const void **host) {
    if (r->on_device) PST_TRY(copy_now(r, r->bounce, at, bytes));
    *host = r->on_device ? r->bounce : at;
    return PST_OK;
}

pst_status pst_rank_map(const pst_rank *r, void *at, uint64_t bytes, int reads, void **host) {
    void *copy = at;
    if (r->on_device && !(copy = malloc(bytes + 1)))
        return pst_fail(PST_ENOMEM, "no host memory for a copy of %.1f MiB of device memory",
                        (double)bytes / 0x1p20);
    pst_status status = r->on_device && reads ? copy_now(r, copy, at, bytes) : PST_OK;
    if (status != PST_OK) free(copy);
    else *host = copy;
    return status;
}

pst_status pst_rank_unmap(const pst_rank *r, void *at, uint64_t bytes, int writes, void *host) {
    if (!r->on_device) return PST_OK;
    pst_status status = writes ? copy_now(r, at, host, bytes) : PST_OK;
    free(host);
    return status;
}

/* --- written bytes ---------------------------------------------------------------------------- */

/* One more than the last offset in [from, to) that was written; `from`: none was. Reads blocks from
 * the end, and mostly the first block decides. */
static pst_status last_touched(const pst_rank *r, uint64_t from, uint64_t to, uint64_t *end) {
    const void *host;
    while (to > from) {
        uint64_t n = to - from < PST_RANK_BOUNCE ? to - from : PST_RANK_BOUNCE;
        PST_TRY(pst_rank_peek(r, r->arena.base + (to - n), n, &host));
        const uint8_t *block = host;
        for (; n > 0 && block[n - 1] == UNTOUCHED; n--) to--;
        if (n) break;
    }
    *end = to + to % 2; /* numbers have at least two bytes */
    return PST_OK;
}

pst_status pst_rank_touched(const pst_rank *r, uint64_t from, uint64_t *end) {
    if (r->on_device && r->arena.canary) return last_touched(r, from, r->arena.bytes, end);
    *end = r->on_device ? from : pst_arena_touched(&r->arena, from, r->arena.bytes);
    return PST_OK;
}

pst_status pst_rank_intact(const pst_rank *r, int *intact) {
    uint64_t end = r->arena.bytes;
    if (r->on_device)
        PST_TRY(last_touched(r, r->arena.bytes, r->arena.bytes + PST_ARENA_CANARY_BYTES, &end));
    *intact = r->on_device ? end <= r->arena.bytes + 1 : pst_arena_intact(&r->arena);
    return PST_OK;
}
