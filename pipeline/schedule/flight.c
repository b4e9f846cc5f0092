/* How many micro-batches a schedule holds in flight: see flight.h. */
#include "pipeline/schedule/flight.h"
#include <stdlib.h>

static uint32_t least_of(uint64_t a, uint32_t b) { return a < b ? (uint32_t)a : b; }

uint32_t pst_schedule_full(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_micro) {
    const pst_schedule_rules *rules = row->rules;
    if (!rules) return n_micro;
    if (rules->full) return least_of(rules->full(n_rank, n_micro), n_micro);
    return least_of(2 * (uint64_t)n_rank + 2, n_micro);
}

int pst_schedule_flight_rule(const pst_schedule_row *row, pst_schedule_flight *f) {
    f->split = row->split;
    return row->rules && row->rules->hold && row->rules->hold(f);
}

void pst_schedule_flight_set(pst_schedule_flight *f, uint32_t chunk, uint32_t most, uint32_t to_b) {
    f->most[chunk] = least_of(most, f->n_micro);
    f->to_b[chunk] = least_of(to_b, f->n_micro);
    f->held[f->stage[chunk]] += f->to_b[chunk];
}

uint32_t pst_schedule_warm(const pst_schedule_row *row, const pst_schedule_size *size,
                           uint32_t stage, uint32_t nth) {
    if (!row->rules || !row->rules->warm) return size->n_micro;
    return least_of(row->rules->warm(size, stage, nth), size->n_micro);
}

void pst_schedule_character(const pst_schedule_row *row, const pst_schedule_size *size,
                            double *bubble, double *held) {
    const double p = size->n_rank, m = size->n_micro;
    *bubble = row->bubble;
    *held = row->held * p;
    if (!row->n_virtual) { /* what waits is a chunk, not a stage */
        *bubble = row->bubble / size->n_virtual;
        *held = row->held * p + (p - 1) / size->n_virtual;
    }
    if (*held > m) *held = m;
}

/* --- counted ---------------------------------------------------------------------------------- */

typedef struct {
    uint32_t f, b, w; /* passes that have begun */
} begun;

static void top_up(uint32_t *most, uint32_t now) { *most = now > *most ? now : *most; }

static void count(const pst_schedule *s, pst_schedule_flight *f, begun *of) {
    for (uint32_t r = 0; r < s->n_rank; r++)
        for (uint32_t i = 0, held = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            begun *n = &of[a->chunk];
            const uint32_t back = a->opcode == PST_OP_B || a->opcode == PST_OP_BW;
            n->f += a->opcode == PST_OP_F;
            n->b += back;
            held += a->opcode == PST_OP_F;
            held -= back;
            top_up(&f->held[r], held);
            n->w += a->opcode == PST_OP_W || a->opcode == PST_OP_BW;
            if (a->opcode == PST_OP_F) {
                top_up(&f->most[a->chunk], n->f - n->w);
                top_up(&f->to_b[a->chunk], n->f - n->b);
            }
            if (a->opcode == PST_OP_B) top_up(&f->to_w[a->chunk], n->b - n->w);
        }
}

pst_status pst_schedule_flight_count(const pst_schedule *s, pst_schedule_flight *f) {
    begun *of = calloc(s->n_chunk, sizeof *of);
    if (!of) return pst_fail(PST_ENOMEM, "schedule %s: no memory to count", s->name);
    count(s, f, of);
    free(of);
    return PST_OK;
}
