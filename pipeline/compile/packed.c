/* Packs what crosses chunk boundaries (pst_cut_packing). A value that crosses one of these is
 * packed behind the step that writes it, sent packed, also through chunks that only forward it, and
 * unpacked in each chunk that reads it, before the first step that does. Those steps read what was
 * unpacked; the chunk that computes the value goes on with the value itself. The tape gets a step
 * PACK with the node of the writing step, and steps UNPACK with the nodes of the reading ones. */
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_cut *cut;
    const pst_cut_packing *how; /* that of the cut */
    uint32_t n_value;           /* before anything is packed */
    /* [n_value] chunk of the step that writes the value; first and last chunk whose steps name it
     */
    uint32_t *home, *low, *high;
    uint32_t *packed;   /* [n_value] the packed value; 0: it is not packed */
    uint32_t *row;      /* [n_value] of a packed value, its row in `unpacked` */
    uint32_t *unpacked; /* [n_packed][n_chunk] the value that a chunk reads; 0: none yet */
    uint32_t n_packed;
    pst_tape_step *step; /* the new tape */
    uint8_t *extra;
    uint32_t n_step;
} packing;

static void find_range(packing *x) {
    const pst_tape *tape = x->cut->tape;
    for (uint32_t v = 0; v < x->n_value; v++) x->low[v] = x->cut->n_chunk;
    for (uint32_t s = 0; s < tape->n_step; s++)
        for (uint32_t i = 0; i < tape->step[s].n_operand; i++) {
            const pst_operand *o = tape->step[s].operand + i;
            if (o->kind != PST_OPERAND_VALUE) continue;
            const uint32_t c = pst_cut_step_chunk(x->cut, s);
            if (o->access & PST_WRITE) x->home[o->index] = c;
            if (c < x->low[o->index]) x->low[o->index] = c;
            if (c > x->high[o->index]) x->high[o->index] = c;
        }
}

static int crosses(const packing *x, uint32_t value) {
    for (uint32_t c = x->low[value]; c < x->high[value]; c++)
        if (x->how->packs[c]) return 1;
    return 0;
}

int pst_cut_may_pack(const pst_cut *cut, uint32_t value) {
    const pst_value *v = cut->tape->value + value;
    if (v->def_step == PST_NONE || v->kind == PST_VALUE_SAVED || v->dtype != PST_F32) return 0;
    if (v->packs || cut->graph->tensor[v->tensor].role == PST_TENSOR_OUTPUT) return 0;
    return pst_codec_bytes(cut->packing.codec, v->bytes / sizeof(float)) < v->bytes;
}

/* Appends what a new step is to write: the value packed, or unpacked. */
static uint32_t add_value(packing *x, uint32_t of, int packs) {
    pst_tape *tape = x->cut->tape;
    pst_value v = tape->value[of];
    if (packs) {
        v.bytes = pst_codec_bytes(x->how->codec, v.bytes / sizeof(float));
        v.packs = 1 + of;
    }
    tape->value[tape->n_value] = v;
    return tape->n_value++;
}

/* Chooses and numbers the values that are packed. Returns the number of steps to add, at most: each
 * writes one value. */
static uint64_t choose(packing *x) {
    uint64_t n = 0;
    for (uint32_t v = 0; v < x->n_value; v++) {
        if (!pst_cut_may_pack(x->cut, v) || !crosses(x, v)) continue;
        x->row[v] = x->n_packed++;
        x->packed[v] = 1;
        n += 1 + (uint64_t)(x->high[v] - x->low[v]);
    }
    return n;
}

static void append(packing *x, const pst_tape_step *step, int extra) {
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (o->kind == PST_OPERAND_VALUE && o->access & PST_WRITE)
            x->cut->tape->value[o->index].def_step = x->n_step;
    }
    x->step[x->n_step] = *step;
    x->extra[x->n_step++] = (uint8_t)extra;
}

/* A step that packs or unpacks beside step `by`. */
static void add_step(packing *x, const pst_tape_step *by, int extra, uint32_t from, uint32_t to) {
    const pst_value *a = x->cut->tape->value + from, *b = x->cut->tape->value + to;
    const pst_pass back = a->kind == PST_VALUE_GRAD ? PST_PASS_B : PST_PASS_F;
    pst_tape_step step = {.node = by->node, .pass = back, .n_operand = 2};
    step.operand[0] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = PST_READ, .share = -1, .index = from};
    step.operand[1] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = PST_WRITE, .share = -1, .index = to};
    step.flops = (extra == PST_EXTRA_PACK ? a->bytes : b->bytes) / sizeof(float);
    step.bytes = a->bytes + b->bytes;
    append(x, &step, extra);
}

/* Lets a step of chunk c read what is unpacked there. */
static void read_unpacked(packing *x, pst_tape_step *step, uint32_t c) {
    for (uint32_t i = 0; i < step->n_operand; i++) {
        pst_operand *o = step->operand + i;
        const uint32_t v = o->index;
        if (o->kind != PST_OPERAND_VALUE || o->access & PST_WRITE || v >= x->n_value) continue;
        if (!x->packed[v] || x->home[v] == c) continue;
        uint32_t *to = x->unpacked + (size_t)x->row[v] * x->cut->n_chunk + c;
        if (!*to) {
            *to = add_value(x, v, 0);
            add_step(x, step, PST_EXTRA_UNPACK, x->packed[v], *to);
        }
        o->index = *to;
    }
}

static void pack_written(packing *x, const pst_tape_step *step) {
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (o->kind != PST_OPERAND_VALUE || !(o->access & PST_WRITE)) continue;
        if (o->index >= x->n_value || !x->packed[o->index]) continue;
        x->packed[o->index] = add_value(x, o->index, 1);
        add_step(x, step, PST_EXTRA_PACK, o->index, x->packed[o->index]);
    }
}

static void rewrite(packing *x) {
    pst_tape *tape = x->cut->tape;
    for (uint32_t s = 0; s < tape->n_step; s++) {
        pst_tape_step step = tape->step[s];
        read_unpacked(x, &step, x->cut->chunk_of_node[step.node]);
        append(x, &step, tape->extra[s]);
        pack_written(x, &step);
    }
    free(tape->step);
    free(tape->extra);
    tape->step = x->step;
    tape->extra = x->extra;
    tape->n_step = x->n_step;
    x->step = NULL;
    x->extra = NULL;
}

static pst_status open_packing(packing *x) {
    const size_t n = x->n_value + (size_t)1;
    x->home = calloc(n, sizeof *x->home);
    x->low = calloc(n, sizeof *x->low);
    x->high = calloc(n, sizeof *x->high);
    x->packed = calloc(n, sizeof *x->packed);
    x->row = calloc(n, sizeof *x->row);
    const int there = x->home && x->low && x->high && x->packed && x->row;
    return there ? PST_OK : pst_no_memory("to pack messages between stages");
}

/* Memory for `more` further values and steps. */
static pst_status open_tape(packing *x, uint64_t more) {
    pst_tape *tape = x->cut->tape;
    pst_value *value = realloc(tape->value, (tape->n_value + more) * sizeof *value);
    if (value) tape->value = value;
    x->unpacked = calloc((size_t)x->n_packed * x->cut->n_chunk, sizeof *x->unpacked);
    x->step = malloc((tape->n_step + more) * sizeof *x->step);
    x->extra = malloc(tape->n_step + more);
    const int there = value && x->unpacked && x->step && x->extra;
    return there ? PST_OK : pst_no_memory("to pack messages between stages");
}

static pst_status pack(packing *x) {
    PST_TRY(open_packing(x));
    find_range(x);
    const uint64_t more = choose(x);
    if (!more) return PST_OK;
    PST_TRY(open_tape(x, more));
    rewrite(x);
    return PST_OK;
}

pst_status pst_cut_pack(pst_cut *cut, const pst_cut_packing *how) {
    if (!how || how->codec.kind == PST_CODEC_NONE || cut->n_chunk == 1) return PST_OK;
    uint8_t *packs = malloc(cut->n_chunk);
    if (!packs) return pst_no_memory("to pack messages between stages");
    memcpy(packs, how->packs, cut->n_chunk - 1);
    cut->packing = (pst_cut_packing){how->codec, packs};
    packing x = {.cut = cut, .how = &cut->packing, .n_value = cut->tape->n_value};
    const pst_status status = pack(&x);
    free(x.home);
    free(x.low);
    free(x.high);
    free(x.packed);
    free(x.row);
    free(x.unpacked);
    free(x.step);
    free(x.extra);
    return status;
}
