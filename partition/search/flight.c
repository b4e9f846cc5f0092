/* Schedules that a search asks for again and again, and how many micro-batches they hold in
 * flight. */
#include "partition/search/space.h"
#include <stdlib.h>
#include <string.h>

/* --- schedules -------------------------------------------------------------------------------- */

/* Others than `kept`, from the oldest on, while all together are too many. */
static void forget(pst_search_context *x, const pst_search_made *kept) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < PST_SEARCH_MADE; i++) all += x->made[i].made ? x->made[i].n_action : 0;
    for (uint32_t i = 0; i < PST_SEARCH_MADE && all > PST_SEARCH_ACTIONS; i++) {
        pst_search_made *m = &x->made[(x->next_made + i) % PST_SEARCH_MADE];
        if (m == kept || !m->made) continue;
        all -= m->n_action;
        pst_schedule_close(m->made);
        m->made = NULL;
    }
}

pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made) {
    for (uint32_t i = 0; i < PST_SEARCH_MADE; i++) {
        const pst_search_made *m = &x->made[i];
        if (!m->made || m->schedule != schedule || m->pipeline != pipeline || m->chunks != chunks ||
            m->n_micro != n_micro)
            continue;
        *made = m->made;
        return PST_OK;
    }
    pst_schedule *s;
    PST_TRY(pst_schedule_generate(x->row[schedule]->name, pipeline, chunks, n_micro, &s));
    pst_search_made *m = &x->made[x->next_made++ % PST_SEARCH_MADE];
    pst_schedule_close(m->made);
    *m = (pst_search_made){schedule, pipeline, chunks, n_micro, s, 0};
    for (uint32_t r = 0; r < s->n_rank; r++) m->n_action += s->n_action[r];
    forget(x, m);
    *made = s;
    return PST_OK;
}

/* --- in flight -------------------------------------------------------------------------------- */

void pst_search_flight_close(pst_search_flight *f) {
    if (f) {
        free(f->stage);
        free(f);
    }
}

/* Micro-batches beyond which nothing more is in flight: once all stages are busy, with both chunks
 * of each where they go there and back. Rounds of interleaved ones are of p micro-batches, or of
 * one more where some are left over, which go to the first rounds. */
static uint32_t enough(const char *name, uint32_t p, uint32_t n_micro) {
    if (!strcmp(name, "gpipe")) return n_micro;
    uint32_t over = n_micro % p;
    uint64_t most =
        strcmp(name, "interleaved") ? 2 * (uint64_t)p + 2 : (over + 4) * (uint64_t)p + over;
    return n_micro < most ? n_micro : (uint32_t)most;
}

static uint32_t least_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* B of a chunk that W has not followed, on stages to which chunks go there and back, of 2 p
 * micro-batches or more. zb-v runs W where nothing else can run; dualpipev puts it off in its last
 * steps, where one of what was put off is run after each B. */
static uint32_t put_off(const char *name, uint32_t p, uint32_t chunk) {
    uint32_t stage = chunk < p ? chunk : 2 * p - 1 - chunk, behind = p - 1 - stage,
             half = (stage + 1) / 2;
    if (!strcmp(name, "zb-v"))
        return chunk < p ? least_of(2 * (stage + 1), p - behind / 2) : stage + 1;
    if (chunk < p) return stage / 2 + 1 + least_of(half, (behind + stage % 2) / 2);
    return half ? half : 1;
}

/* From B to W, of those in flight by a rule. zb-h1 and zb-h2 hold as many in flight as they may. */
static uint32_t to_w_by_rule(const char *name, const pst_search_flight *f, uint32_t chunk) {
    uint32_t p = f->pipeline, more = f->most[chunk] - f->to_b[chunk] + 1;
    if (!strcmp(name, "gpipe") || !strcmp(name, "1f1b")) return 0;
    if (!strcmp(name, "1f1b-early")) return 1;
    if (!strcmp(name, "zb-h1")) return more;
    if (!strcmp(name, "zb-h2")) return least_of(more + (f->n_micro >= 2 * p), f->most[chunk]);
    return put_off(name, p, chunk);
}

/* What schedules hold by their rules; to make them takes long where there are many stages. 0: it
 * has to be counted. */
static int by_rule(const char *name, pst_search_flight *f) {
    enum { COUNTED, ALL, TO_THE_END, STAGES, TWICE } rule = COUNTED;
    uint32_t p = f->pipeline;
    if (!strcmp(name, "gpipe")) rule = ALL;
    if (!strcmp(name, "1f1b") || !strcmp(name, "1f1b-early")) rule = TO_THE_END;
    if ((!strcmp(name, "zb-v") || !strcmp(name, "dualpipev")) && f->n_micro >= 2 * p)
        rule = TO_THE_END;
    if (!strcmp(name, "zb-h1")) rule = STAGES;
    if (!strcmp(name, "zb-h2")) rule = TWICE;
    for (uint32_t k = 0; rule != COUNTED && k < f->n_chunk; k++) {
        const uint32_t of[][2] = {[ALL] = {f->n_micro, f->n_micro}, /* most, to_b */
                                  [TO_THE_END] = {f->n_chunk - k, f->n_chunk - k},
                                  [STAGES] = {p, p - k},
                                  [TWICE] = {2 * p - 1, 2 * (p - k) - 1}};
        const uint32_t most = of[rule][0], to_b = of[rule][1];
        f->most[k] = least_of(most, f->n_micro);
        f->to_b[k] = least_of(to_b, f->n_micro);
        f->to_w[k] = to_w_by_rule(name, f, k);
        f->held[f->stage[k]] += f->to_b[k];
        if (!strcmp(name, "zb-v")) f->held[f->stage[k]] = least_of(f->held[f->stage[k]], 2 * p);
    }
    return rule != COUNTED;
}

typedef struct {
    uint32_t f, b, w; /* passes that have begun */
} begun;

static void top_up(uint32_t *most, uint32_t now) { *most = now > *most ? now : *most; }

static void count(const pst_schedule *s, pst_search_flight *f, begun *of) {
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

static pst_status count_made(pst_search_context *x, pst_search_flight *f) {
    const pst_schedule *s;
    PST_TRY(pst_search_schedule_of(x, f->schedule, f->pipeline, f->chunks, f->n_micro, &s));
    begun *of = calloc(f->n_chunk, sizeof *of);
    if (!of) return pst_fail(PST_ENOMEM, "no memory to search");
    count(s, f, of);
    free(of);
    return PST_OK;
}

static pst_status make_flight(pst_search_context *x, pst_search_flight *f) {
    const pst_schedule_row *row = x->row[f->schedule];
    uint32_t p = f->pipeline;
    f->n_chunk = p * f->chunks;
    f->stage = calloc(4 * (size_t)f->n_chunk + p, sizeof *f->stage);
    if (!f->stage) return pst_fail(PST_ENOMEM, "no memory to search");
    f->most = f->stage + f->n_chunk;
    f->to_b = f->most + f->n_chunk;
    f->to_w = f->to_b + f->n_chunk;
    f->held = f->to_w + f->n_chunk;
    for (uint32_t k = 0; k < f->n_chunk; k++)
        f->stage[k] = row->placement == PST_PLACE_THERE_AND_BACK && k >= p ? 2 * p - 1 - k : k % p;
    return by_rule(row->name, f) ? PST_OK : count_made(x, f);
}

pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight) {
    n_micro = enough(x->row[schedule]->name, pipeline, n_micro);
    for (uint32_t i = 0; i < x->n_flight; i++) {
        const pst_search_flight *f = x->flight[i];
        if (f->schedule != schedule || f->pipeline != pipeline || f->chunks != chunks ||
            f->n_micro != n_micro)
            continue;
        *flight = f;
        return PST_OK;
    }
    PST_TRY(pst_search_grow((void **)&x->flight, x->n_flight, &x->room_flight));
    pst_search_flight *f = calloc(1, sizeof *f);
    if (!f) return pst_fail(PST_ENOMEM, "no memory to search");
    f->schedule = schedule;
    f->pipeline = pipeline;
    f->chunks = chunks;
    f->n_micro = n_micro;
    pst_status status = make_flight(x, f);
    if (status != PST_OK) {
        pst_search_flight_close(f);
        return status;
    }
    *flight = x->flight[x->n_flight++] = f;
    return PST_OK;
}

/* --- before the first B ----------------------------------------------------------------------- */

/* Of passes that come round every 6 units from `start`, those before `end`. */
static uint32_t beats_before(uint64_t start, uint64_t end) {
    return end > start ? (uint32_t)((end - start + 5) / 6) : 0;
}

uint32_t pst_search_warm(const char *name, uint32_t pipeline, uint32_t n_micro, uint32_t stage,
                         uint32_t nth) {
    const uint32_t p = pipeline, behind = p - 1 - stage;
    uint64_t n = n_micro;
    if (!strcmp(name, "zb-v")) n = nth ? stage + 1 : p + (uint64_t)behind;
    else if (!strcmp(name, "dualpipev")) n = nth ? stage + 1 : p + behind + !behind;
    else if (!strcmp(name, "zb-h2")) n = 2 * (uint64_t)behind + 1;
    else if (!strcmp(name, "zb-h1") || !strncmp(name, "1f1b", 4)) n = behind + 1;
    else if (!strcmp(name, "v-half") || !strcmp(name, "v-min")) {
        uint64_t there = !strcmp(name, "v-half") ? 2 : 1, wait = there == 1 && p % 3 == 0 ? 2 : 0;
        uint64_t back = (uint64_t)(p - 1) * there + 1, first_b = back + p + wait + stage * there;
        n = beats_before(nth ? back + behind : stage * there, first_b);
    }
    return n < n_micro ? (uint32_t)n : n_micro;
}
