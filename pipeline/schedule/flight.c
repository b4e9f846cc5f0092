/* How many micro-batches a schedule has in flight: see flight.h. */
#include "pipeline/schedule/flight.h"
#include <stdlib.h>

static uint32_t smaller(uint64_t a, uint32_t b) { return a < b ? (uint32_t)a : b; }

uint32_t pst_schedule_saturation(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_micro) {
    const pst_schedule_rules *rules = row->rules;
    if (!rules) return n_micro;
    if (rules->saturation) return smaller(rules->saturation(n_rank, n_micro), n_micro);
    return smaller(2 * (uint64_t)n_rank + 2, n_micro);
}

int pst_schedule_flight_rule(const pst_schedule_row *row, pst_schedule_flight *f) {
    f->split = row->split;
    return row->rules && row->rules->in_flight && row->rules->in_flight(f);
}

void pst_schedule_flight_set(pst_schedule_flight *f, uint32_t chunk, uint32_t f_to_w,
                             uint32_t f_to_b) {
    f->f_to_w[chunk] = smaller(f_to_w, f->n_micro);
    f->f_to_b[chunk] = smaller(f_to_b, f->n_micro);
    f->held[f->stage[chunk]] += f->f_to_b[chunk];
}

uint32_t pst_schedule_warm_up(const pst_schedule_row *row, const pst_schedule_size *size,
                              uint32_t stage, uint32_t nth) {
    if (!row->rules || !row->rules->warm_up) return size->n_micro;
    return smaller(row->rules->warm_up(size, stage, nth), size->n_micro);
}

void pst_schedule_estimate(const pst_schedule_row *row, const pst_schedule_size *size,
                           double *bubble, double *held) {
    const double p = size->n_rank, m = size->n_micro;
    *bubble = row->bubble;
    *held = row->held * p;
    if (!row->n_virtual) { /* a rank waits for a chunk, not for a stage */
        *bubble = row->bubble / size->n_virtual;
        *held = row->held * p + (p - 1) / size->n_virtual;
    }
    if (*held > m) *held = m;
}

/* --- counted ---------------------------------------------------------------------------------- */

typedef struct {
    uint32_t f, b, w; /* passes that have started */
} started;

static void raise_to(uint32_t *most, uint32_t now) { *most = now > *most ? now : *most; }

static void count(const pst_schedule *s, pst_schedule_flight *f, started *of) {
    for (uint32_t r = 0; r < s->n_rank; r++)
        for (uint32_t i = 0, held = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            started *n = &of[a->chunk];
            const uint32_t back = a->opcode == PST_OP_B || a->opcode == PST_OP_BW;
            n->f += a->opcode == PST_OP_F;
            n->b += back;
            held += a->opcode == PST_OP_F;
            held -= back;
            raise_to(&f->held[r], held);
            n->w += a->opcode == PST_OP_W || a->opcode == PST_OP_BW;
            if (a->opcode == PST_OP_F) {
                raise_to(&f->f_to_w[a->chunk], n->f - n->w);
                raise_to(&f->f_to_b[a->chunk], n->f - n->b);
            }
            if (a->opcode == PST_OP_B) raise_to(&f->b_to_w[a->chunk], n->b - n->w);
        }
}

pst_status pst_schedule_flight_count(const pst_schedule *s, pst_schedule_flight *f) {
    started *of = calloc(s->n_chunk, sizeof *of);
    if (!of)
        return pst_fail(PST_ENOMEM, "schedule %s: no memory to count micro-batches in flight",
                        s->name);
    count(s, f, of);
    free(of);
    return PST_OK;
}
