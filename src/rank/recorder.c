/* See recorder.h and record.h. */
#include "rank/recorder.h"
#include "base/hash.h"
#include "rank/extent.h"
#include "rank/rank.h"
#include "rank/record.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 4096 };

struct pst_recorder {
    FILE *file;
    char path[4096];
    uint64_t elements; /* largest number of stored elements per tensor or piece */
    char whole[PST_NAME_MAX + 32];
    pst_hasher *hasher;
    uint8_t *packed; /* buffer for the elements to store */
    size_t room;     /* size of the buffer in bytes */
    int repeats;     /* 1: operators are repeated */
    int started;     /* 1: the first step of the run has begun */
    uint8_t *read;   /* [n_param] recorded in this step as an operator reads it */
};

/* --- the file --------------------------------------------------------------------------------- */

static pst_status cannot_write(const pst_recorder *x) {
    return pst_fail(PST_ENOMEM, "cannot write %s: %s", x->path, strerror(errno ? errno : EIO));
}

static pst_status write_head(pst_recorder *x, const pst_rank *r) {
    pst_record_head head = {.magic = PST_RECORD_MAGIC,
                            .version = PST_RECORD_VERSION,
                            .bytes = sizeof(pst_record),
                            .rank = r->rank,
                            .n_rank = r->p->options.n_rank,
                            .stage = r->place.stage,
                            .replica = r->place.replica,
                            .tensor = r->place.tensor,
                            .n_tensor = pst_grid_degree(r->p->grid, r->place.stage),
                            .graph = pst_graph_hash(r->p->whole)};
    return fwrite(&head, sizeof head, 1, x->file) == 1 ? PST_OK : cannot_write(x);
}

static void read_environment(pst_recorder *x) {
    const char *elements = getenv("PENSTOCK_RECORD_ELEMENTS"),
               *whole = getenv("PENSTOCK_RECORD_WHOLE");
    x->elements = elements ? strtoull(elements, NULL, 10) : ELEMENTS;
    if (!x->elements) x->elements = 1;
    x->repeats = getenv("PENSTOCK_RECORD_REPEAT") != NULL;
    snprintf(x->whole, sizeof x->whole, "%s", whole ? whole : "");
}

pst_status pst_recorder_open(const pst_rank *r, pst_recorder **recorder) {
    const char *folder = getenv("PENSTOCK_RECORD");
    *recorder = NULL;
    if (!folder || !*folder || !r->p->optim) return PST_OK;
    pst_recorder *x = calloc(1, sizeof *x);
    if (!x) return pst_fail(PST_ENOMEM, "no memory to record rank %u", r->rank);
    read_environment(x);
    snprintf(x->path, sizeof x->path, "%.4000s/rank-%u.record", folder, r->rank);
    x->read = calloc(r->graph->n_param + (size_t)1, 1);
    x->hasher = pst_hasher_open();
    x->file = x->read && x->hasher ? fopen(x->path, "wb") : NULL;
    pst_status status = PST_OK;
    if (!x->read || !x->hasher) status = pst_fail(PST_ENOMEM, "no memory to record a rank");
    else if (!x->file)
        status =
            pst_fail(PST_EINPUT, "PENSTOCK_RECORD: cannot create %s: %s", x->path, strerror(errno));
    if (status == PST_OK) status = write_head(x, r);
    if (status == PST_OK) *recorder = x;
    else pst_recorder_close(x);
    return status;
}

void pst_recorder_close(pst_recorder *x) {
    if (!x) return;
    if (x->file) fclose(x->file);
    pst_hasher_close(x->hasher);
    free(x->packed);
    free(x->read);
    free(x);
}

/* --- one record ------------------------------------------------------------------------------- */

static pst_status reserve(pst_recorder *x, size_t bytes) {
    if (bytes <= x->room) return PST_OK;
    uint8_t *more = realloc(x->packed, bytes);
    if (!more) return pst_fail(PST_ENOMEM, "no memory to record a tensor");
    x->packed = more;
    x->room = bytes;
    return PST_OK;
}

/* Byte offset of element i in memory with gaps between rows. */
static uint64_t offset_of(const pst_extent *e, uint64_t i, uint64_t size) {
    return (e->pitch ? i / e->row * e->pitch + i % e->row : i) * size;
}

static uint64_t digest_of(pst_recorder *x, const pst_extent *e, const uint8_t *at, uint64_t size) {
    if (!e->pitch) return pst_hash_bytes(at, e->n * size);
    pst_hasher_reset(x->hasher);
    for (uint64_t i = 0; i < e->n; i += e->row)
        pst_hasher_add(x->hasher, at + offset_of(e, i, size), e->row * size);
    return pst_hasher_value(x->hasher);
}

/* Stores elements with an index in the whole tensor that is a multiple of the stride, so that
 * pieces of one tensor store the same ones in every layout. */
static pst_status store(pst_recorder *x, pst_record *record, const pst_extent *e,
                        const uint8_t *at) {
    uint64_t size = pst_dtype_bytes(e->dtype), all = record->from + e->n, n = 0;
    int whole = *x->whole && !strcmp(record->tensor, x->whole);
    for (uint32_t d = 0; d < record->n_dim; d++) all = d ? all * record->dim[d] : record->dim[d];
    record->stride = whole ? 1 : (all + x->elements - 1) / x->elements;
    if (!record->stride) record->stride = 1;
    PST_TRY(reserve(x, (e->n / record->stride + 2) * size));
    for (uint64_t i = (record->stride - record->from % record->stride) % record->stride; i < e->n;
         i += record->stride)
        memcpy(x->packed + n++ * size, at + offset_of(e, i, size), size);
    record->stored = (uint32_t)n;
    return PST_OK;
}

static pst_status put(pst_recorder *x, const pst_record *record, uint64_t bytes) {
    static const uint8_t zeros[8];
    size_t pad = (size_t)(-bytes % 8);
    int good = fwrite(record, sizeof *record, 1, x->file) == 1 &&
               (!bytes || fwrite(x->packed, bytes, 1, x->file) == 1) &&
               (!pad || fwrite(zeros, pad, 1, x->file) == 1);
    return good ? PST_OK : cannot_write(x);
}

static pst_status write_record(pst_rank *r, pst_record *record, const pst_extent *e,
                               const void *at) {
    pst_recorder *x = r->recorder;
    uint64_t size = pst_dtype_bytes(e->dtype), last = e->n ? offset_of(e, e->n - 1, size) : 0;
    void *host;
    if (!at || !e->n) return PST_OK;
    record->rank = r->rank;
    record->step = r->step;
    record->dtype = e->dtype;
    record->n = e->n;
    PST_TRY(pst_rank_map(r, (void *)(uintptr_t)at, last + size, 1, &host));
    record->digest = digest_of(x, e, host, size);
    pst_status status = store(x, record, e, host);
    if (status == PST_OK) status = put(x, record, record->stored * size);
    PST_TRY(pst_rank_unmap(r, (void *)(uintptr_t)at, last + size, 0, host));
    return status;
}

/* --- operators -------------------------------------------------------------------------------- */

/* B visits nodes in reverse; of one node B comes first, then sums, then W. What is recomputed comes
 * before all of B. */
static pst_record record_of(const pst_rank *r, const pst_step *s, uint32_t micro) {
    const pst_graph *g = r->graph;
    uint32_t in_node = s->pass == PST_PASS_W ? 2 : s->extra != 0;
    int forward = s->pass == PST_PASS_F && !s->extra;
    pst_record record = {.phase = forward && !s->again ? PST_RECORD_FORWARD : PST_RECORD_BACKWARD,
                         .micro = r->micro + micro,
                         .pass = s->pass,
                         .exchange = s->exchange,
                         .position =
                             forward ? s->node : (g->n_node - s->node) * 4 + in_node + g->n_node};
    memcpy(record.node, g->node[s->node].name, sizeof record.node);
    return record;
}

static void set_shape(pst_record *record, uint32_t n_dim, const uint64_t *dim) {
    record->n_dim = n_dim;
    memcpy(record->dim, dim, n_dim * sizeof *dim);
}

static void name_value(const pst_graph *g, const pst_value *v, pst_record *record) {
    const char *tensor = v->kind == PST_VALUE_SAVED ? "" : g->tensor[v->tensor].name;
    if (v->kind == PST_VALUE_SAVED) {
        snprintf(record->tensor, sizeof record->tensor, "%s.saved.%u", g->node[v->node].name,
                 v->saved);
        set_shape(record, 1, &g->node[v->node].saved[v->saved].elements);
        return;
    }
    if (v->kind == PST_VALUE_TENSOR) snprintf(record->tensor, sizeof record->tensor, "%s", tensor);
    else if (!v->version) snprintf(record->tensor, sizeof record->tensor, "gradient of %s", tensor);
    else
        snprintf(record->tensor, sizeof record->tensor, "gradient of %s, sum %u", tensor,
                 v->version);
    set_shape(record, g->tensor[v->tensor].n_dim, g->tensor[v->tensor].dim);
}

/* A parameter as operators read it, in pieces; once in a step. */
static pst_status record_param(pst_rank *r, pst_record record, uint32_t param, const uint8_t *at,
                               pst_dtype dtype) {
    const pst_param *p = r->graph->param + param;
    uint64_t n = pst_param_elements(p), size = pst_dtype_bytes(dtype);
    if (r->recorder->read[param]) return PST_OK;
    r->recorder->read[param] = 1;
    record.kind = PST_RECORD_PARAM;
    record.slice = p->slice;
    memcpy(record.tensor, p->name, sizeof p->name);
    set_shape(&record, p->n_dim, p->dim);
    for (uint64_t from = 0; from < n; from += PST_PIECE) {
        pst_extent e = {.dtype = dtype, .n = n - from < PST_PIECE ? n - from : PST_PIECE};
        record.from = from;
        PST_TRY(write_record(r, &record, &e, at + from * size));
    }
    return PST_OK;
}

static int is_data(const pst_graph *g, const pst_value *v) {
    return v->kind == PST_VALUE_TENSOR && g->tensor[v->tensor].role == PST_TENSOR_DATA;
}

pst_status pst_recorder_before(pst_rank *r, const pst_recorder_launch *l) {
    const pst_graph *g = pst_rank_graph(r, l->micro);
    if (!r->train) return PST_OK;
    for (uint32_t i = 0; i < l->step->n_operand; i++) {
        const pst_operand *o = l->step->operand + i;
        pst_extent e = pst_extent_of(g, pst_rank_sizes(r, l->micro), l->chunk, o);
        if (!(o->access & PST_READ) || !l->arg[i]) continue;
        pst_record record = record_of(r, l->step, l->micro);
        record.part = i;
        if (o->kind == PST_OPERAND_PARAM) {
            PST_TRY(record_param(r, record, o->index, l->arg[i], e.dtype));
            continue;
        }
        if (!e.value) continue;
        int data = is_data(g, e.value);
        record.kind = data ? PST_RECORD_DATA : PST_RECORD_READ;
        name_value(g, e.value, &record);
        PST_TRY(write_record(r, &record, &e, l->arg[i]));
    }
    return PST_OK;
}

/* The accumulator of a use of a parameter, after this micro-batch. */
static void name_gradient(const pst_graph *g, const pst_operand *o, pst_record *record) {
    const pst_param *p = g->param + o->index;
    snprintf(record->tensor, sizeof record->tensor, "gradient of %s, use %u", p->name, o->use);
    record->slice = p->slice;
    set_shape(record, p->n_dim, p->dim);
}

static pst_status record_outputs(pst_rank *r, const pst_recorder_launch *l, uint32_t kind) {
    const pst_graph *g = pst_rank_graph(r, l->micro);
    for (uint32_t i = 0; i < l->step->n_operand; i++) {
        const pst_operand *o = l->step->operand + i;
        pst_extent e = pst_extent_of(g, pst_rank_sizes(r, l->micro), l->chunk, o);
        if (!(o->access & PST_WRITE) || o->kind == PST_OPERAND_UNREAD || !l->arg[i]) continue;
        pst_record record = record_of(r, l->step, l->micro);
        record.part = i;
        record.kind = kind;
        if (e.value) name_value(g, e.value, &record);
        else name_gradient(r->graph, o, &record);
        PST_TRY(write_record(r, &record, &e, l->arg[i]));
    }
    return PST_OK;
}

pst_status pst_recorder_after(pst_rank *r, const pst_recorder_launch *l) {
    if (!r->train) return PST_OK;
    return record_outputs(r, l, l->step->again ? PST_RECORD_AGAIN : PST_RECORD_WRITTEN);
}

int pst_recorder_repeats(const pst_recorder *x) { return x && x->repeats; }

pst_status pst_recorder_repeated(pst_rank *r, const pst_recorder_launch *l) {
    return record_outputs(r, l, PST_RECORD_REPEATED);
}

pst_status pst_recorder_exchanged(pst_rank *r, uint32_t chunk, const pst_step *step,
                                  uint32_t micro) {
    void *arg[PST_MAX_ARG];
    for (uint32_t i = 0; i < step->n_operand; i++)
        arg[i] = pst_rank_operand(r, chunk, step, i, micro);
    const pst_recorder_launch launch = {step, chunk, micro, arg};
    return pst_recorder_after(r, &launch);
}

/* --- the end of a step ------------------------------------------------------------------------ */

/* Elements [from, to) of an array of a parameter, `at` being the address of element `from`, in
 * pieces that begin at the same elements in every layout. */
typedef struct {
    const void *at;
    pst_dtype dtype;
    uint64_t from, to;
} array;

static pst_status record_array(pst_rank *r, pst_record *record, uint32_t param, const array *a) {
    const pst_param *p = r->graph->param + param;
    const uint64_t size = pst_dtype_bytes(a->dtype);
    record->micro = PST_NONE;
    record->slice = p->slice;
    set_shape(record, p->n_dim, p->dim);
    for (uint64_t first = a->from; a->at && first < a->to;) {
        uint64_t next = (first / PST_PIECE + 1) * PST_PIECE;
        if (next > a->to) next = a->to;
        const pst_extent e = {.dtype = a->dtype, .n = next - first};
        record->from = first;
        PST_TRY(write_record(r, record, &e, (const uint8_t *)a->at + (first - a->from) * size));
        first = next;
    }
    return PST_OK;
}

pst_status pst_recorder_gradients(pst_rank *r) {
    const pst_memory_map *x = r->memory;
    for (uint32_t i = 0; i < x->n_owned; i++) {
        uint32_t param = x->owned[i];
        const pst_param *p = r->graph->param + param;
        pst_record record = {
            .phase = PST_RECORD_GRADIENT, .kind = PST_RECORD_SUM, .position = param};
        if (x->own_from[param] >= x->own_to[param]) continue;
        snprintf(record.tensor, sizeof record.tensor, "gradient of %s", p->name);
        const array a = {pst_rank_sum(r, param, x->own_from[param]), PST_F32, x->own_from[param],
                         x->own_to[param]};
        PST_TRY(record_array(r, &record, param, &a));
    }
    return PST_OK;
}

static pst_status record_state(pst_rank *r, pst_record_phase phase) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        pst_record record = {.phase = phase, .kind = PST_RECORD_STATE, .position = i};
        const pst_rank_part part = pst_rank_part_of(r, i);
        if (part.from >= part.to) continue;
        memcpy(record.tensor, r->graph->param[i].name, PST_NAME_MAX);
        array a = {pst_rank_weight(r, i), PST_F32, part.from, part.to};
        PST_TRY(record_array(r, &record, i, &a));
        a.dtype = r->p->optim->state;
        if (r->graph->param[i].frozen) continue;
        uint32_t n = pst_optim_states(r->p->optim, r->graph->param + i);
        for (uint32_t s = 0; s < n; s++) {
            snprintf(record.tensor, sizeof record.tensor, "%s.%s", r->graph->param[i].name,
                     r->p->optim->state_name[s]);
            record.part = s + 1;
            a.at = pst_rank_state(r, i, s);
            PST_TRY(record_array(r, &record, i, &a));
        }
    }
    return PST_OK;
}

static pst_status record_numbers(pst_rank *r) {
    const pst_optim_hyper *h = &r->hyper;
    const struct {
        const char *name;
        double value;
    } number[] = {{"tokens", (double)r->targets},     {"loss", r->loss_sum / (double)r->targets},
                  {"loss scale", r->loss_scale},      {"gradient norm", r->grad_norm},
                  {"clip factor", r->clip_scale},     {"learning rate", h->lr},
                  {"optimizer step", (double)h->t},   {"correction of m", h->correction1},
                  {"correction of v", h->correction2}};
    pst_recorder *x = r->recorder;
    PST_TRY(reserve(x, sizeof(double)));
    for (uint32_t i = 0; i < sizeof number / sizeof *number; i++) {
        pst_record record = {.phase = PST_RECORD_NUMBER,
                             .kind = PST_RECORD_SCALAR,
                             .step = r->step,
                             .micro = PST_NONE,
                             .position = i,
                             .rank = r->rank,
                             .dtype = PST_F64,
                             .stored = 1,
                             .stride = 1,
                             .n = 1,
                             .digest = pst_hash_bytes(&number[i].value, sizeof(double))};
        snprintf(record.tensor, sizeof record.tensor, "%s", number[i].name);
        memcpy(x->packed, &number[i].value, sizeof(double));
        PST_TRY(put(x, &record, sizeof(double)));
    }
    return PST_OK;
}

pst_status pst_recorder_begin(pst_rank *r) {
    memset(r->recorder->read, 0, r->graph->n_param);
    if (r->recorder->started) return PST_OK;
    r->recorder->started = 1;
    return record_state(r, PST_RECORD_START);
}

pst_status pst_recorder_end(pst_rank *r) {
    PST_TRY(record_numbers(r));
    PST_TRY(record_state(r, PST_RECORD_END));
    return fflush(r->recorder->file) ? cannot_write(r->recorder) : PST_OK;
}
