/* See work.h. */
#include "rank/rank.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kinds after the operators. */
static const char *const others[] = {"sum", "pack", "reduce", "norm", "optimizer"};
enum { SUM, PACK, REDUCE, NORM, OPTIMIZER, N_OTHER };

static uint32_t operators(void) {
    uint32_t n;
    pst_op_rows(&n);
    /* further operators would count as the last kind */
    return n + N_OTHER <= PST_WORK_MAX ? n : PST_WORK_MAX - N_OTHER;
}

uint32_t pst_work_count(void) { return operators() + N_OTHER; }

const char *pst_work_name(uint32_t kind) {
    uint32_t n = operators(), all;
    return kind < n ? pst_op_rows(&all)[kind]->name : others[kind - n];
}

uint32_t pst_work_of_step(const pst_graph *g, const pst_step *step) {
    uint32_t n = operators(), all, i = 0;
    const pst_op_row *const *rows = pst_op_rows(&all), *op = g->node[step->node].op;
    if (pst_extra_packs(step->extra)) return n + PACK;
    if (step->extra) return n + SUM;
    while (i + 1 < n && rows[i] != op) i++;
    return i;
}

uint32_t pst_work_of_flush(const pst_instr *instr) {
    uint32_t n = operators();
    switch (instr->opcode) {
    case PST_OP_PACK:
    case PST_OP_UNPACK: return n + PACK;
    case PST_OP_REDUCE: return n + REDUCE;
    case PST_OP_NORM:
    case PST_OP_GATHER: return n + NORM;
    case PST_OP_OUTER:
    case PST_OP_STEP:
    case PST_OP_VALIDATE: return n + OPTIMIZER;
    default: return PST_NONE;
    }
}

void pst_rank_record_op(pst_rank *r, const pst_step *step, uint32_t micro, uint64_t began,
                        uint64_t ended) {
    if (!r->train || r->n_op == r->max_op) return;
    r->op[r->n_op++] = (pst_op_span){.start = began,
                                     .end = ended,
                                     .node = step->node,
                                     .micro = micro,
                                     .pass = step->pass,
                                     .extra = step->extra,
                                     .again = step->again};
}

typedef struct {
    uint64_t ns;
    const char *name;
} share;

static int by_size(const void *a, const void *b) {
    const share *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

void pst_work_text(const pst_work *work, uint64_t all_ns, char *text, size_t bytes) {
    share list[PST_WORK_MAX + 1];
    uint32_t n = pst_work_count(), used = 0;
    uint64_t busy = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        busy += work->ns[i];
        if (work->ns[i]) list[used++] = (share){work->ns[i], pst_work_name(i)};
    }
    qsort(list, used, sizeof *list, by_size);
    list[used++] = (share){all_ns > busy ? all_ns - busy : 0, "waiting"};
    *text = 0;
    for (uint32_t i = 0; i < used && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s %.1f%%", i ? ", " : "", list[i].name,
                               all_ns ? 100.0 * (double)list[i].ns / (double)all_ns : 0);
}
