/* Cuts a tape at stage boundaries: for each chunk its programs, locals, buffers and classes. All of
 * this depends only on model and cut, not on schedule, rank or micro-batch, and does not change
 * once built. */
#include "base/arena.h"
#include "pipeline/compile/cut.h"
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>
#include <string.h>

/* --- programs --------------------------------------------------------------------------------- */

static int pass_in_program(uint8_t opcode, pst_pass pass, int split) {
    switch (opcode) {
    case PST_OP_F: return pass == PST_PASS_F;
    case PST_OP_B: return split && pass == PST_PASS_B;
    case PST_OP_W: return split && pass == PST_PASS_W;
    default: return !split && pass != PST_PASS_F;
    }
}

/* Behind the kernel's scratch memory. */
static void place_unread(const pst_graph *g, pst_step *step) {
    for (uint32_t i = 0; i < step->n_operand; i++) {
        pst_operand *o = step->operand + i;
        if (o->kind != PST_OPERAND_UNREAD) continue;
        step->scratch = pst_align(step->scratch);
        o->use = (uint32_t)(step->scratch / PST_ARENA_ALIGN);
        step->scratch += pst_param_sums(g->param + o->index) * sizeof(float);
    }
}

static pst_status make_step(const pst_cut *cut, const pst_chooser *chooser, const uint32_t *local,
                            uint32_t s, pst_step *step) {
    const pst_tape_step *from = cut->tape->step + s;
    const pst_node *node = cut->graph ? cut->graph->node + from->node : NULL;
    const int kind = cut->tape->extra ? cut->tape->extra[s] : 0;
    int extra = from->again == PST_AGAIN_RESTORE ? PST_EXTRA_RESTORE : 0;
    if (kind) extra = kind;
    *step = (pst_step){.node = from->node,
                       .pass = (uint8_t)from->pass,
                       .extra = (uint8_t)kind,
                       .exchange = node ? (uint8_t)pst_node_exchange(node, kind, from->pass) : 0,
                       .again = from->again,
                       .n_operand = from->n_operand,
                       .flops = from->flops,
                       .bytes = from->bytes};
    for (uint32_t i = 0; i < from->n_operand; i++) {
        step->operand[i] = from->operand[i];
        if (from->operand[i].kind == PST_OPERAND_VALUE)
            step->operand[i].index = local[from->operand[i].index];
    }
    pst_chosen chosen = {0, 0};
    if (chooser && chooser->choose && !pst_extra_packs(kind))
        PST_TRY(chooser->choose(chooser->arg, cut->graph, node, extra, from->pass, &chosen));
    step->kernel = chosen.kernel;
    step->scratch = chosen.scratch;
    place_unread(cut->graph, step);
    step->ns = chooser && chooser->ns
                   ? chooser->ns(chooser->arg, node, extra, from->pass, step->flops, step->bytes)
                   : step->flops + step->bytes;
    return PST_OK;
}

/* The scratch memory of a step suffices for the smaller micro-batch too. */
static pst_status share_scratch(const pst_cut *cut, uint32_t c, uint8_t opcode, uint32_t i) {
    const pst_program *rest = cut->rest->chunk[c].program + opcode;
    pst_step *step = cut->chunk[c].program[opcode].step + i;
    if (i >= rest->n_step) return pst_cut_rest_differs(cut, c);
    if (rest->step[i].scratch > step->scratch) step->scratch = rest->step[i].scratch;
    return PST_OK;
}

static pst_status build_program(pst_cut *cut, const pst_chooser *chooser, const pst_spread *spread,
                                uint32_t c, uint8_t opcode) {
    const pst_chunk_steps *of = &spread->steps;
    pst_program *p = cut->chunk[c].program + opcode;
    uint32_t n = 0;
    for (uint32_t i = of->first[c]; i < of->first[c + 1]; i++)
        n += pass_in_program(opcode, pst_cut_step_pass(cut, of->step[i]), cut->split);
    if (!n) return PST_OK;
    if (!(p->step = calloc(n, sizeof *p->step)))
        return pst_fail(PST_ENOMEM, "no memory for a pass of %u operators", n);
    for (uint32_t i = of->first[c]; i < of->first[c + 1]; i++) {
        if (!pass_in_program(opcode, pst_cut_step_pass(cut, of->step[i]), cut->split)) continue;
        PST_TRY(make_step(cut, chooser, spread->local, of->step[i], p->step + p->n_step));
        if (cut->rest) PST_TRY(share_scratch(cut, c, opcode, p->n_step));
        p->ns += p->step[p->n_step++].ns;
    }
    return PST_OK;
}

static pst_status build_chunk(pst_cut *cut, const pst_chooser *chooser, pst_spread *spread,
                              uint32_t c) {
    PST_TRY(pst_cut_locals(cut, spread, c));
    for (uint8_t opcode = PST_OP_F; opcode <= PST_OP_BW; opcode++)
        PST_TRY(build_program(cut, chooser, spread, c, opcode));
    PST_TRY(pst_cut_buffers(cut, c));
    PST_TRY(pst_cut_classes(cut, c));
    return pst_cut_place_scratch(cut, c);
}

static pst_status build_chunks(pst_cut *cut, const pst_chooser *chooser) {
    pst_spread spread;
    pst_status status = pst_spread_open(cut, &spread);
    for (uint32_t c = 0; status == PST_OK && c < cut->n_chunk; c++)
        status = build_chunk(cut, chooser, &spread, c);
    pst_spread_close(&spread);
    return status;
}

/* --- the cut ---------------------------------------------------------------------------------- */

/* A spec without a graph has a chunk for each of its n_chunk operators. */
static pst_status open_cut(const pst_cut_spec *spec, pst_cut **cut) {
    const uint32_t n_node = spec->graph ? spec->graph->n_node : spec->n_chunk;
    pst_cut *x = calloc(1, sizeof *x);
    if (x) {
        *x = (pst_cut){.graph = spec->graph,
                       .n_chunk = spec->n_chunk,
                       .n_node = n_node,
                       .split = spec->split && spec->backward,
                       .backward = spec->backward};
        x->chunk = calloc(spec->n_chunk, sizeof *x->chunk);
        x->chunk_of_node = malloc(n_node * sizeof *x->chunk_of_node);
    }
    if (!x || !x->chunk || !x->chunk_of_node) {
        pst_cut_close(x);
        return pst_fail(PST_ENOMEM, "no memory to cut the graph into %u chunks", spec->n_chunk);
    }
    for (uint32_t i = 0; i < n_node; i++)
        x->chunk_of_node[i] = spec->chunk_of_node ? spec->chunk_of_node[i] : i;
    *cut = x;
    return PST_OK;
}

static pst_status find_uses(pst_cut *cut) {
    const pst_graph *g = cut->graph;
    uint32_t n_param = g ? g->n_param : 0, n_use = 0;
    if (!(cut->use_first = calloc(n_param + 1, sizeof *cut->use_first)))
        return pst_fail(PST_ENOMEM, "no memory for the uses of parameters");
    for (uint32_t p = 0; p < n_param; p++) {
        cut->use_first[p] = n_use;
        n_use += pst_param_gradients(&g->param[p]);
    }
    cut->use_first[n_param] = n_use;
    if (!(cut->use_chunk = calloc(n_use ? n_use : 1, sizeof *cut->use_chunk)))
        return pst_fail(PST_ENOMEM, "no memory for the uses of parameters");
    for (uint32_t n = 0; g && n < g->n_node; n++)
        for (uint32_t i = 0; i < g->node[n].n_param; i++)
            if (!g->param[g->node[n].param[i]].frozen)
                cut->use_chunk[cut->use_first[g->node[n].param[i]] + g->node[n].use[i]] =
                    cut->chunk_of_node[n];
    cut->param_from = malloc(2 * (size_t)cut->n_chunk * sizeof *cut->param_from);
    if (!cut->param_from) return pst_fail(PST_ENOMEM, "no memory for the uses of parameters");
    cut->param_to = cut->param_from + cut->n_chunk;
    for (uint32_t c = 0; c < cut->n_chunk; c++) {
        cut->param_from[c] = n_param;
        cut->param_to[c] = 0;
    }
    for (uint32_t p = n_param; p-- > 0;) {
        if (cut->use_first[p] == cut->use_first[p + 1]) continue;
        const uint32_t c = cut->use_chunk[cut->use_first[p]];
        cut->param_from[c] = p;
        if (!cut->param_to[c]) cut->param_to[c] = p + 1;
    }
    return PST_OK;
}

static pst_status check_chunks(const uint32_t *chunk_of_node, uint32_t n_node, uint32_t n_chunk) {
    if (!n_node || !n_chunk || chunk_of_node[0] != 0 || chunk_of_node[n_node - 1] != n_chunk - 1)
        return pst_fail(PST_EINPUT,
                        "invalid cut of %u operators into %u chunks: expected the first operator "
                        "in chunk 0 and the last operator in the last chunk",
                        n_node, n_chunk);
    for (uint32_t i = 1; i < n_node; i++)
        if (chunk_of_node[i] != chunk_of_node[i - 1] &&
            chunk_of_node[i] != chunk_of_node[i - 1] + 1)
            return pst_fail(PST_EINPUT,
                            "operator %u: expected contiguous chunks in the order of operators", i);
    return PST_OK;
}

static pst_status build_rest(const pst_cut_spec *spec, const pst_chooser *chooser, pst_cut *x) {
    pst_cut_spec rest = *spec;
    rest.graph = spec->rest;
    rest.rest = NULL;
    if (chooser && chooser->rest) chooser = chooser->rest;
    return spec->rest ? pst_cut_build(&rest, chooser, &x->rest) : PST_OK;
}

pst_status pst_cut_build(const pst_cut_spec *spec, const pst_chooser *chooser, pst_cut **cut) {
    pst_cut *x;
    PST_TRY(check_chunks(spec->chunk_of_node, spec->graph->n_node, spec->n_chunk));
    PST_TRY(open_cut(spec, &x));
    pst_status status = build_rest(spec, chooser, x);
    if (status == PST_OK) status = pst_tape_build(spec->graph, spec->backward, &x->tape);
    if (status == PST_OK && spec->backward && chooser && chooser->recompute)
        status = pst_cut_recompute(x, chooser->recompute, chooser->whole);
    if (status == PST_OK) status = pst_cut_pack(x, chooser ? chooser->packing : NULL);
    if (status == PST_OK) status = find_uses(x);
    if (status == PST_OK) status = build_chunks(x, chooser);
    if (status == PST_OK && x->rest) status = pst_cut_place_rest(x);
    if (status != PST_OK) {
        pst_cut_close(x);
        return status;
    }
    *cut = x;
    return PST_OK;
}

pst_status pst_cut_open_uses(const pst_graph *g, const uint32_t *chunk_of_node, uint32_t n_chunk,
                             pst_cut **cut) {
    pst_cut *x;
    PST_TRY(check_chunks(chunk_of_node, g->n_node, n_chunk));
    PST_TRY(open_cut(&(pst_cut_spec){g, chunk_of_node, n_chunk, 0, 0, NULL}, &x));
    pst_status status = find_uses(x);
    if (status != PST_OK) pst_cut_close(x);
    else *cut = x;
    return status;
}

pst_status pst_cut_tape(const pst_graph *g, pst_recompute mode, int whole, pst_tape **tape) {
    const pst_recompute_way way = mode == PST_RECOMPUTE_LAYERS
                                      ? pst_recompute_of_layers(PST_RECOMPUTE_MOST_LAYERS)
                                      : (pst_recompute_way)mode;
    uint32_t *chunk = calloc(g->n_node, sizeof *chunk);
    pst_cut x = {.graph = g, .n_chunk = 1, .n_node = g->n_node, .chunk_of_node = chunk};
    pst_status status =
        chunk ? pst_tape_build(g, 1, &x.tape)
              : pst_fail(PST_ENOMEM, "no memory for a tape of %u operators", g->n_node);
    if (status == PST_OK && mode != PST_RECOMPUTE_NONE) status = pst_cut_recompute(&x, &way, whole);
    free(chunk);
    if (status == PST_OK) *tape = x.tape;
    else pst_tape_close(x.tape);
    return status;
}

static void close_chunk(pst_chunk *chunk) {
    free(chunk->local);
    free(chunk->buffer);
    for (uint32_t p = 0; p < 4; p++) free(chunk->program[p].step);
}

void pst_cut_close(pst_cut *cut) {
    if (!cut) return;
    pst_cut_close(cut->rest);
    for (uint32_t c = 0; cut->chunk && c < cut->n_chunk; c++) close_chunk(cut->chunk + c);
    if (cut->tape) pst_tape_close(cut->tape);
    free((void *)(uintptr_t)cut->packing.packs);
    free(cut->chunk);
    free(cut->chunk_of_node);
    free(cut->class_);
    free(cut->use_first);
    free(cut->use_chunk);
    free(cut->param_from);
    free(cut);
}

/* --- synthetic -------------------------------------------------------------------------------- */

static uint64_t ns_of(const pst_pass_ns *ns, uint32_t pass) {
    if (pass == PST_PASS_F) return ns->f;
    return pass == PST_PASS_B ? ns->b : ns->w;
}

static uint64_t synthetic_ns(void *arg, const pst_node *node, int extra, pst_pass pass,
                             uint64_t flops, uint64_t bytes) {
    (void)node;
    (void)extra;
    (void)flops;
    (void)bytes;
    return ns_of(arg, pass);
}

static pst_tape_step *add_step(pst_tape *tape, uint32_t chunk, pst_pass pass) {
    pst_tape_step *step = tape->step + tape->n_step++;
    *step = (pst_tape_step){.node = chunk, .pass = pass};
    return step;
}

static void add_operand(pst_tape *tape, pst_tape_step *step, uint32_t value, uint8_t access) {
    step->operand[step->n_operand++] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = access, .share = -1, .index = value};
    if (access & PST_WRITE) tape->value[value].def_step = (uint32_t)(step - tape->step);
}

/* Value c: what chunk c sends to c + 1; value n - 1 + c: the gradient that is sent back. W reads
 * what B reads. */
static void fill_synthetic(pst_tape *tape, uint32_t n, int backward, uint64_t bytes) {
    uint32_t cross = n - 1;
    tape->n_value = backward ? 2 * cross : cross;
    for (uint32_t v = 0; v < tape->n_value; v++)
        tape->value[v] = (pst_value){.kind = v < cross ? PST_VALUE_TENSOR : PST_VALUE_GRAD,
                                     .tensor = v % cross,
                                     .bytes = bytes};
    for (uint32_t c = 0; c < n; c++) {
        pst_tape_step *f = add_step(tape, c, PST_PASS_F);
        if (c > 0) add_operand(tape, f, c - 1, PST_READ);
        if (c < cross) add_operand(tape, f, c, PST_WRITE);
    }
    for (uint32_t c = n; backward && c-- > 0;)
        for (pst_pass pass = PST_PASS_B; pass <= PST_PASS_W; pass++) {
            pst_tape_step *step = add_step(tape, c, pass);
            if (c > 0) add_operand(tape, step, c - 1, PST_READ);
            if (c < cross) add_operand(tape, step, cross + c, PST_READ);
            if (c > 0 && pass == PST_PASS_B) add_operand(tape, step, cross + c - 1, PST_WRITE);
        }
}

static pst_status build_synthetic_tape(uint32_t n, int backward, uint64_t bytes, pst_tape **tape) {
    pst_tape *x = calloc(1, sizeof *x);
    if (x) {
        x->value = calloc(2 * (size_t)n, sizeof *x->value);
        x->step = calloc(3 * (size_t)n, sizeof *x->step);
        x->extra = calloc(3 * (size_t)n, sizeof *x->extra);
    }
    *tape = x; /* the cut owns it from here on */
    if (!x || !x->value || !x->step || !x->extra)
        return pst_fail(PST_ENOMEM, "no memory for %u chunks", n);
    fill_synthetic(x, n, backward, bytes);
    return PST_OK;
}

pst_status pst_cut_synthetic(uint32_t n_chunk, int split, int backward, pst_pass_ns ns,
                             uint64_t bytes, pst_cut **cut) {
    pst_chooser chooser = {.arg = &ns, .ns = synthetic_ns};
    pst_cut *x;
    if (!n_chunk) return pst_fail(PST_EINPUT, "the cut has 0 chunks; expected 1 or more");
    PST_TRY(open_cut(&(pst_cut_spec){NULL, NULL, n_chunk, split, backward, NULL}, &x));
    pst_status status = build_synthetic_tape(n_chunk, backward, bytes, &x->tape);
    if (status == PST_OK) status = find_uses(x);
    if (status == PST_OK) status = build_chunks(x, &chooser);
    if (status != PST_OK) {
        pst_cut_close(x);
        return status;
    }
    *cut = x;
    return PST_OK;
}

void pst_cut_set_times(pst_cut *cut, const pst_pass_ns *ns) {
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t op = 0; op < 4; op++) {
            pst_program *program = cut->chunk[c].program + op;
            program->ns = 0;
            for (uint32_t s = 0; s < program->n_step; s++) {
                pst_step *step = program->step + s;
                step->ns = ns_of(&ns[c], step->pass);
                program->ns += step->ns;
            }
        }
}
