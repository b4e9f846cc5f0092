/* See shard.h: the file's contents, and how its pieces are written. shard_verify.c reads them
 * back. */
#include "checkpoint/shard_parts.h"
#include "base/clock.h"
#include "checkpoint/durable.h"
#include "checkpoint/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 32 << 10 }; /* hashed and checked while it is in the first-level cache */
/* rate of copying into the page cache: a faster disk does not need the cache */
static const double CACHE_BYTES_PER_S = 1e9;
enum { JUDGE = 5 }; /* 1/JUDGE of the available time must pass before the disk's rate is used */

/* --- layout of the file
 * ------------------------------------------------------------------------ */

static pst_status add_tensor(pst_shard *s, const pst_ckpt_entry *e, const char *suffix,
                             pst_dtype dtype, const void *memory) {
    const pst_param *param = e->param;
    pst_shard_tensor *t = &s->tensor[s->n++];
    uint64_t n = e->n ? e->n : pst_param_elements(param);
    if (e->basis) n = e->basis;
    char name[PST_CKPT_NAME], part[PST_CKPT_NAME];
    snprintf(name, sizeof name, "%s%s%s", param->name, *suffix ? "." : "", suffix);
    *t = (pst_shard_tensor){.memory = memory, .dtype = dtype, .bytes = n * pst_dtype_bytes(dtype)};
    s->decl[s->n - 1] = (pst_safetensors_decl){.dtype = dtype, .n_dim = e->n ? 1 : param->n_dim};
    if (e->basis) s->decl[s->n - 1].n_dim = 1;
    if (e->n || e->basis) s->decl[s->n - 1].dim[0] = n;
    else memcpy(s->decl[s->n - 1].dim, param->dim, sizeof param->dim);
    const char *stored =
        e->n ? pst_ckpt_part_name(name, &param->slice, e->from, e->from + n, part) : name;
    if (asprintf(&t->key, PST_CKPT_HASH_KEY "%s", stored) < 0) {
        t->key = NULL;
        return pst_no_memory("to write a checkpoint");
    }
    s->decl[s->n - 1].name = t->name = t->key + strlen(PST_CKPT_HASH_KEY);
    return PST_OK;
}

/* The header with the present hashes; its size does not depend on them. at: where tensors begin;
 * NULL: one behind the other. */
static pst_status make_header(const pst_shard *s, const uint64_t *at, char **text, size_t *size) {
    pst_safetensors_header h;
    const char **key = calloc(2 * (size_t)s->n + 1, sizeof *key), **value = key + s->n;
    char(*hash)[20] = calloc(s->n + (size_t)1, sizeof *hash);
    pst_status status = key && hash ? PST_OK : pst_no_memory("to write a checkpoint");
    for (uint32_t i = 0; status == PST_OK && i < s->n; i++) {
        snprintf(hash[i], sizeof hash[i], "%016" PRIx64, s->tensor[i].hash);
        key[i] = s->tensor[i].key;
        value[i] = hash[i];
    }
    if (status == PST_OK)
        status = pst_safetensors_header_at(
            s->decl, at, s->n, &(pst_safetensors_meta_list){key, value, s->n}, PST_SHARD_ALIGN, &h);
    if (status == PST_OK) {
        *text = h.text;
        *size = h.size;
    }
    free(hash);
    free(key);
    return status;
}

static uint32_t states_of(const pst_optim_row *rule, const pst_ckpt_entry *e) {
    return e->residual || e->outer || e->pending ? 0 : pst_optim_states(rule, e->param);
}

static pst_status add_weight(pst_shard *s, const pst_ckpt_entry *e) {
    char name[PST_CKPT_NAME];
    if (e->pending) {
        pst_ckpt_pending_name("", e->pending, e->residual - 1, name);
        return add_tensor(s, e, name + 1, PST_F32, e->weight);
    }
    if (e->outer == PST_CKPT_VELOCITY) {
        pst_ckpt_velocity_name("", name);
        return add_tensor(s, e, name + 1, PST_F32, e->weight);
    }
    if (e->island) {
        const char *kept = e->outer == PST_CKPT_KEPT ? PST_CKPT_KEPT_NAME : "";
        if (e->outer == PST_CKPT_LEFT) kept = PST_CKPT_LEFT_NAME;
        pst_ckpt_island_name("", e->island - 1, kept, name);
        return add_tensor(s, e, name + 1, PST_F32, e->weight);
    }
    if (!e->residual) return add_tensor(s, e, "", PST_F32, e->weight);
    if (e->residual == PST_CKPT_COPY) pst_ckpt_copy_name("", name);
    else if (e->second) pst_ckpt_moments_name("", e->residual - 1, name);
    else if (e->basis) pst_ckpt_basis_name("", e->residual - 1, e->tensor, name);
    else pst_ckpt_residual_name("", e->residual - 1, name);
    return add_tensor(s, e, name + 1, PST_F32, e->weight);
}

static pst_status add_state(pst_shard *s, const pst_optim_row *rule, const pst_ckpt_entry *e,
                            uint32_t k) {
    char name[PST_CKPT_NAME];
    if (!e->island) return add_tensor(s, e, rule->state_name[k], rule->state, e->state[k]);
    pst_ckpt_island_name("", e->island - 1, rule->state_name[k], name);
    return add_tensor(s, e, name + 1, rule->state, e->state[k]);
}

static pst_status plan_file(pst_shard *s, const pst_optim_row *rule, const pst_ckpt_entry *entry,
                            uint32_t n) {
    size_t most = (size_t)n * (1 + (rule ? rule->n_state : 0)) + 1;
    uint32_t first = 0;
    s->tensor = calloc(most, sizeof *s->tensor);
    s->decl = calloc(most, sizeof *s->decl);
    s->until = calloc(n + (size_t)1, sizeof *s->until);
    s->taking = pst_hasher_open();
    s->reading = pst_hasher_open();
    if (!s->tensor || !s->decl || !s->until || !s->taking || !s->reading)
        return pst_no_memory("to write a checkpoint");
    for (uint32_t i = 0; i < n; i++) {
        PST_TRY(add_weight(s, &entry[i]));
        for (uint32_t k = 0; k < states_of(rule, &entry[i]); k++)
            PST_TRY(add_state(s, rule, &entry[i], k));
    }
    PST_TRY(make_header(s, NULL, &s->header, &s->header_bytes));
    s->end = s->header_bytes;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = first + 1 + states_of(rule, &entry[i]);
        for (; first < next; first++) s->end += s->tensor[first].bytes;
        s->until[i] = s->end;
    }
    return PST_OK;
}

pst_status pst_shard_open(const pst_optim_row *rule, const pst_ckpt_entry *entry, uint32_t n,
                          uint64_t piece, pst_shard **out) {
    pthread_condattr_t attr;
    pst_shard *s = calloc(1, sizeof *s);
    if (!s) return pst_no_memory("to write a checkpoint");
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->take, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, &attr);
    pthread_condattr_destroy(&attr);
    s->fd = s->direct = -1;
    s->flat = pst_flat_choose(pst_cpu_isa());
    atomic_init(&s->released, UINT64_MAX);
    pst_status status = plan_file(s, rule, entry, n);
    uint64_t small =
        (s->end - s->header_bytes + PST_SHARD_ALIGN) / PST_SHARD_ALIGN * PST_SHARD_ALIGN;
    if (small > PST_SHARD_PIECE) small = PST_SHARD_PIECE;
    s->piece = piece ? piece : small;
    if (status != PST_OK) pst_shard_close(s);
    else *out = s;
    return status;
}

void pst_shard_close(pst_shard *s) {
    if (!s) return;
    for (uint32_t i = 0; s->tensor && i < s->n; i++) free(s->tensor[i].key);
    free(s->tensor);
    free(s->decl);
    free(s->until);
    free(s->header);
    free(s->path);
    pst_hasher_close(s->taking);
    pst_hasher_close(s->reading);
    pthread_mutex_destroy(&s->take);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->moved);
    free(s);
}

void pst_shard_read_with(pst_shard *s, pst_shard_read fetch, void *arg) {
    s->fetch = fetch;
    s->fetch_arg = arg;
}

void pst_shard_place(pst_shard *s, uint32_t i, const void *memory) { s->tensor[i].memory = memory; }

/* The positions in the header depend on its size. */
static pst_status make_placed(const pst_shard *s, const uint8_t *base, uint64_t behind, char **text,
                              size_t *bytes) {
    uint64_t *at = calloc(s->n + (size_t)1, sizeof *at);
    if (!at) return pst_no_memory("to describe the state in memory");
    for (uint32_t i = 0; i < s->n; i++) at[i] = behind + (uint64_t)(s->tensor[i].memory - base);
    pst_status status = make_header(s, at, text, bytes);
    free(at);
    return status;
}

pst_status pst_shard_header(const pst_shard *s, const uint8_t *base, uint64_t at, char **text,
                            size_t *bytes) {
    size_t size = PST_SHARD_ALIGN;
    for (int tries = 0; tries < 8 && size <= at; tries++) {
        PST_TRY(make_placed(s, base, at - size, text, bytes));
        if (*bytes == size) return PST_OK;
        size = *bytes;
        free(*text);
    }
    return pst_fail(PST_EINTERNAL, "the description of the state in memory has no size");
}

void pst_shard_move(pst_shard *s, const uint8_t *from, uint64_t bytes, const uint8_t *to) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->tensor[i].memory >= from && s->tensor[i].memory < from + bytes)
            s->tensor[i].memory = to + (s->tensor[i].memory - from);
}

uint64_t pst_shard_piece(const pst_shard *s) { return s->piece; }

void *pst_shard_buffer(const pst_shard *s) {
    void *buffer = mmap(NULL, s->piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED) return NULL;
    madvise(buffer, s->piece, MADV_HUGEPAGE);
    return buffer;
}

void pst_shard_buffer_free(const pst_shard *s, void *buffer) {
    if (buffer) munmap(buffer, s->piece);
}

/* --- release of memory ------------------------------------------------------------------------ */

/* With the lock. A piece that is written directly from the arena keeps its memory; every piece
 * in flight is not yet written. After a failure only the piece that a thread is reading is
 * needed. */
static void update(pst_shard *s) {
    int needed = s->status == PST_OK ? s->taken < s->end : s->is_taking;
    uint64_t released = needed ? s->taken : UINT64_MAX, written = s->taken;
    for (int i = 0; i < PST_SHARD_THREADS; i++) {
        const pst_shard_flight *f = &s->flight[i];
        if (f->active && f->at < written) written = f->at;
        if (f->active && f->held && f->at < released) released = f->at;
    }
    s->written = written;
    atomic_store_explicit(&s->released, released, memory_order_release);
    pthread_cond_broadcast(&s->moved);
}

void pst_shard_fail(pst_shard *s, pst_status status) {
    pthread_mutex_lock(&s->lock);
    if (s->status == PST_OK) {
        s->status = status;
        snprintf(s->message, sizeof s->message, "%s", pst_error());
    }
    update(s);
    pthread_mutex_unlock(&s->lock);
}

void pst_shard_wait_until(pst_shard *s, uint64_t ns) {
    const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
                               .tv_nsec = (long)(ns % 1000000000)};
    pthread_cond_timedwait(&s->moved, &s->lock, &t);
}

int pst_shard_released(pst_shard *s, uint32_t i, uint64_t wait_ns) {
    if (atomic_load_explicit(&s->released, memory_order_acquire) >= s->until[i]) return 1;
    pthread_mutex_lock(&s->lock);
    s->deadline_ns = 1; /* the deadline has passed */
    if (atomic_load(&s->released) < s->until[i])
        pst_shard_wait_until(s, pst_monotonic_ns() + wait_ns);
    pthread_mutex_unlock(&s->lock);
    return atomic_load_explicit(&s->released, memory_order_acquire) >= s->until[i];
}

/* --- a piece ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t at;
    uint32_t n_part;
    int direct, flight;
    struct iovec part[PST_SHARD_PARTS];
} piece;

/* Collects the memory of [at, to) of the file, from the next tensor on. 0: it cannot be written
 * from there (alignment, or too many parts). */
static int collect_memory(const pst_shard *s, piece *p, uint64_t to) {
    uint64_t at = p->at, from = s->offset, align = p->direct ? s->align : 1;
    for (uint32_t k = s->next; at < to; k++, from = 0) {
        const pst_shard_tensor *t = &s->tensor[k];
        uint64_t n = t->bytes - from < to - at ? t->bytes - from : to - at;
        if (!n) continue;
        if (p->n_part == PST_SHARD_PARTS || (uintptr_t)(t->memory + from) % align || n % align)
            return 0;
        p->part[p->n_part++] =
            (struct iovec){.iov_base = (uint8_t *)(uintptr_t)t->memory + from, .iov_len = n};
        at += n;
    }
    return 1;
}

/* Whether the bf16 numbers, or the upper halves of fp32 numbers, are of finite numbers. */
static int halves_are_finite(const uint8_t *at, uint64_t n) {
    enum { EXPONENT = 0x7f80 };
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, at + 2 * i, sizeof half);
        wrong |= (half & EXPONENT) == EXPONENT;
    }
    return !wrong;
}

/* Bytes [at, at + n) of a tensor, whose address is `from`, hold no infinity and no NaN. Behind bf16
 * numbers, a piece may begin or end in the middle of an fp32 number, of which it then has the upper
 * or the lower half. */
static int is_finite(const pst_shard *s, const pst_shard_tensor *t, uint64_t at,
                     const uint8_t *from, uint64_t n) {
    if (t->dtype == PST_BF16) return halves_are_finite(from, n / 2);
    const uint64_t behind = at % sizeof(float) ? 2 : 0;
    if (behind && !halves_are_finite(from, 1)) return 0;
    const float *numbers = (const float *)(const void *)(from + behind);
    return isfinite(s->flat->sum_squares(NULL, numbers, (n - behind) / sizeof *numbers));
}

/* Hashes the next n bytes of the next tensor; copies them if `copy` is set. */
static pst_status take_bytes(pst_shard *s, uint64_t n, uint8_t *copy) {
    pst_shard_tensor *t = &s->tensor[s->next];
    const uint8_t *memory = t->memory + s->offset;
    if (s->fetch) {
        PST_TRY(s->fetch(s->fetch_arg, copy, memory, n));
        memory = copy;
    }
    for (uint64_t done = 0; done < n; done += BLOCK) {
        const uint8_t *from = memory + done;
        size_t bytes = n - done < BLOCK ? n - done : BLOCK;
        if (!is_finite(s, t, s->offset + done, from, bytes))
            return pst_fail(PST_EINPUT, "%s is not finite", t->name);
        pst_hasher_add(s->taking, from, bytes);
        if (copy && !s->fetch) memcpy(copy + done, from, bytes);
    }
    if ((s->offset += n) < t->bytes) return PST_OK;
    t->hash = pst_hasher_value(s->taking);
    pst_hasher_reset(s->taking);
    s->next++;
    s->offset = 0;
    return PST_OK;
}

static pst_status take_all(pst_shard *s, uint64_t at, uint64_t to, uint8_t *copy) {
    while (at < to || (s->next < s->n && s->tensor[s->next].bytes == 0)) {
        uint64_t left = s->tensor[s->next].bytes - s->offset, n = left < to - at ? left : to - at;
        PST_TRY(take_bytes(s, n, copy));
        at += n;
        copy = copy ? copy + n : NULL;
    }
    return PST_OK;
}

/* Whether the disk alone is too slow to release all memory by the deadline. With both locks. */
static int is_late(pst_shard *s) {
    uint64_t passed = pst_monotonic_ns() - s->began_ns;
    if (s->late || !s->deadline_ns || passed < s->deadline_ns / JUDGE ||
        s->written == s->header_bytes)
        return s->late;
    double rate = (double)(s->written - s->header_bytes) / (double)passed * 1e9;
    double left = (double)s->deadline_ns - (double)passed,
           needed = (double)(s->end - s->written) / rate * 1e9;
    return s->late = rate < CACHE_BYTES_PER_S && needed > left;
}

/* Registers [at, to) as in flight; held: its memory is in use until it is written. */
static void register_flight(pst_shard *s, piece *p, uint64_t to, int held) {
    pthread_mutex_lock(&s->lock);
    for (p->flight = 0; s->flight[p->flight].active; p->flight++) {}
    s->flight[p->flight] = (pst_shard_flight){.at = p->at, .active = 1, .held = held};
    s->taken = to;
    s->is_taking = 0;
    update(s);
    pthread_mutex_unlock(&s->lock);
}

/* Takes the next piece. With the lock for taking; 0: there is none. */
static int take_piece(pst_shard *s, piece *p, uint8_t *buffer) {
    pthread_mutex_lock(&s->lock);
    uint64_t at = s->taken, to = s->end - at < s->piece ? s->end : at + s->piece;
    int good = s->status == PST_OK && at < s->end, late = good && is_late(s);
    s->is_taking = good;
    pthread_mutex_unlock(&s->lock);
    if (!good) return 0;
    *p = (piece){.at = at, .direct = s->direct >= 0 && !late};
    int in_place = !s->fetch && collect_memory(s, p, to);
    pst_status status = take_all(s, at, to, in_place ? NULL : buffer);
    if (status != PST_OK) {
        pthread_mutex_lock(&s->lock);
        s->is_taking = 0;
        pthread_mutex_unlock(&s->lock);
        pst_shard_fail(s, status);
        return 0;
    }
    if (!in_place) {
        uint64_t bytes = to - at,
                 padded = p->direct ? (bytes + s->align - 1) / s->align * s->align : bytes;
        memset(buffer + bytes, 0, padded - bytes);
        p->n_part = 1;
        p->part[0] = (struct iovec){.iov_base = buffer, .iov_len = padded};
    }
    register_flight(s, p, to, in_place);
    return 1;
}

static void put_piece(pst_shard *s, piece *p) {
    int fd = p->direct ? s->direct : s->fd;
    pst_status status = pst_durable_write_at(fd, s->path, p->part, (int)p->n_part, p->at);
    if (status != PST_OK) pst_shard_fail(s, status);
    pthread_mutex_lock(&s->lock);
    s->flight[p->flight].active = 0;
    update(s);
    pthread_mutex_unlock(&s->lock);
}

/* --- the file --------------------------------------------------------------------------------- */

void pst_shard_begin(pst_shard *s, const char *path, uint64_t deadline_ns) {
    free(s->path);
    s->path = strdup(path);
    s->status = PST_OK;
    s->message[0] = 0;
    s->next = 0;
    s->offset = 0;
    s->read_next = 0;
    s->read_offset = 0;
    s->taken = s->written = s->read = s->header_bytes;
    s->opened = s->finishing = s->synced = s->late = s->after_sync = 0;
    s->began_ns = pst_monotonic_ns();
    s->deadline_ns = deadline_ns;
    pst_hasher_reset(s->taking);
    pst_hasher_reset(s->reading);
    if (!s->path) pst_shard_fail(s, pst_no_memory("to write a checkpoint"));
    else
        atomic_store_explicit(&s->released, s->taken == s->end ? UINT64_MAX : s->taken,
                              memory_order_release);
}

static pst_status open_file(pst_shard *s) {
    s->opened = 1;
    if (!s->path) return pst_no_memory("to write a checkpoint");
    PST_TRY(pst_durable_create(s->path, &s->fd));
    PST_TRY(pst_durable_reserve(s->fd, s->path, s->end));
    s->direct = pst_durable_direct(s->path, &s->align);
    return PST_OK;
}

static pst_status finish_file(pst_shard *s) {
    size_t size;
    char *text = NULL;
    PST_TRY(make_header(s, NULL, &text, &size));
    free(s->header);
    s->header = text;
    struct iovec part = {.iov_base = text, .iov_len = size};
    if (size != s->header_bytes)
        return pst_fail(PST_EINTERNAL, "%s: the size of the header differs from the reserved size",
                        s->path);
    PST_TRY(pst_durable_write_at(s->fd, s->path, &part, 1, 0));
    PST_TRY(pst_durable_cut(s->fd, s->path, s->end));
    return pst_durable_sync(s->fd, s->path);
}

/* 1 for the one thread that finds everything written. */
static int is_last(pst_shard *s) {
    pthread_mutex_lock(&s->lock);
    int last = s->status == PST_OK && s->opened && !s->finishing && s->written == s->end;
    s->finishing |= last;
    pthread_mutex_unlock(&s->lock);
    return last;
}

static void set_synced(pst_shard *s) {
    pthread_mutex_lock(&s->lock);
    s->synced = 1;
    pthread_cond_broadcast(&s->moved);
    pthread_mutex_unlock(&s->lock);
}

int pst_shard_write(pst_shard *s, void *buffer) {
    piece p;
    pst_status status;
    pthread_mutex_lock(&s->take);
    if (!s->opened && (status = open_file(s)) != PST_OK) pst_shard_fail(s, status);
    int taken = take_piece(s, &p, buffer);
    pthread_mutex_unlock(&s->take);
    if (taken) put_piece(s, &p);
    if (!is_last(s)) return taken;
    if ((status = finish_file(s)) != PST_OK) pst_shard_fail(s, status);
    else set_synced(s);
    return taken;
}

pst_status pst_shard_end(pst_shard *s) {
    if (s->fd >= 0) close(s->fd);
    if (s->direct >= 0) close(s->direct);
    s->fd = s->direct = -1;
    atomic_store_explicit(&s->released, UINT64_MAX, memory_order_release);
    pthread_mutex_lock(&s->lock); /* pst_shard_fail may still be called */
    pst_status status = s->status;
    if (status != PST_OK) pst_fail(status, "%s", s->message);
    pthread_mutex_unlock(&s->lock);
    if (status != PST_OK && s->path && s->opened) unlink(s->path);
    return status;
}
