/* The list of schedules; lookup and generation by name. */
#include "pipeline/schedule/rows.h"
#include "base/plural.h"
#include "pipeline/schedule/build.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows with a generator come first, `forward` last of them; a new one goes before it. */
static const pst_schedule_row rows[] = {
    {.name = "gpipe",
     .torch = "GPipe",
     .help = "all F, then all BW; stashes all micro-batches",
     .n_virtual = 1,
     .generate = pst_schedule_gpipe,
     .rules = &pst_schedule_gpipe_rules,
     .bubble = 1,
     .held = INFINITY},
    {.name = "1f1b",
     .torch = "1F1B",
     .help = "alternates F and fused BW; stashes one micro-batch per later stage, plus one",
     .n_virtual = 1,
     .generate = pst_schedule_1f1b,
     .rules = &pst_schedule_1f1b_rules,
     .bubble = 1,
     .held = 1,
     .single_stage = 1,
     .within_1f1b = 1,
     .saves_memory = 1},
    {.name = "1f1b-early",
     .help = "1f1b with separate B and W: input gradients are sent before W; bubble (p-1)(F+B)",
     .split = 1,
     .n_virtual = 1,
     .generate = pst_schedule_1f1b,
     .rules = &pst_schedule_1f1b_rules,
     .bubble = 0.67,
     .held = 1,
     .within_1f1b = 1,
     .placement_for_solved = 1},
    {.name = "interleaved",
     .torch = "Interleaved1F1B",
     .help = "1f1b with several chunks per rank (2, or --chunks); bubble (p-1)(F+B+W)/chunks",
     .generate = pst_schedule_interleaved,
     .rules = &pst_schedule_interleaved_rules,
     .bubble = 1,
     .held = 1,
     .placement_for_solved = 1},
    {.name = "zb-h1",
     .help = "W fills idle time, with the memory of 1f1b; bubble (p-1)(F+B-W)",
     .split = 1,
     .n_virtual = 1,
     .generate = pst_schedule_zb_h1,
     .rules = &pst_schedule_zb_h1_rules,
     .bubble = 0.35,
     .held = 1,
     .within_1f1b = 1,
     .memory_limit_for_solved = 1},
    {.name = "zb-h2",
     .help =
         "zb-h1 with twice the warm-up; no bubble if F = B = W; stashes up to 2p-1 micro-batches",
     .split = 1,
     .n_virtual = 1,
     .generate = pst_schedule_zb_h2,
     .rules = &pst_schedule_zb_h2_rules,
     .bubble = 0.03,
     .held = 2},
    {.name = "zb-v",
     .torch = "ZBVZeroBubble",
     .help = "two chunks per rank in a V; no bubble if F = B = W; the memory of 1f1b",
     .split = 1,
     .n_virtual = 2,
     .placement = PST_PLACE_V_SHAPE,
     .generate = pst_schedule_zb_v,
     .rules = &pst_schedule_zb_v_rules,
     .bubble = 0.05,
     .held = 1,
     .within_1f1b = 1,
     .placement_for_solved = 1,
     .memory_limit_for_solved = 1},
    {.name = "v-half",
     .help = "two chunks per rank in a V; half the memory and half the bubble of 1f1b",
     .split = 1,
     .n_virtual = 2,
     .placement = PST_PLACE_V_SHAPE,
     .generate = pst_schedule_v_half,
     .rules = &pst_schedule_v_half_rules,
     .bubble = 0.5,
     .held = 0.55,
     .within_1f1b = 1,
     .saves_memory = 1},
    {.name = "v-min",
     .help =
         "two chunks per rank in a V; a third of the memory and two thirds of the bubble of 1f1b",
     .split = 1,
     .n_virtual = 2,
     .placement = PST_PLACE_V_SHAPE,
     .generate = pst_schedule_v_min,
     .rules = &pst_schedule_v_min_rules,
     .bubble = 0.67,
     .held = 0.4,
     .within_1f1b = 1,
     .saves_memory = 1},
    {.name = "dualpipev",
     .torch = "DualPipeV",
     .help =
         "two chunks per rank in a V, F overlapped with B of another micro-batch; stashes p+1/2 "
         "micro-batches",
     .split = 1,
     .n_virtual = 2,
     .placement = PST_PLACE_V_SHAPE,
     .generate = pst_schedule_dualpipev,
     .rules = &pst_schedule_dualpipev_rules,
     .bubble = 0.1,
     .held = 1},
    {.name = "forward",
     .help = "F only: evaluation and generation",
     .kind = PST_SCHEDULE_FORWARD,
     .n_virtual = 1,
     .generate = pst_schedule_forward_row},
    {.name = "custom",
     .help = "read from a CSV file (parallel.schedule_file)",
     .kind = PST_SCHEDULE_FROM_FILE},
    {.name = "solved",
     .help = "optimized for the durations and the memory of the stages",
     .kind = PST_SCHEDULE_SOLVED,
     .split = 1},
};
enum { ROWS = sizeof rows / sizeof *rows, GENERATED = ROWS - 2 };

const pst_schedule_row *pst_schedule_rows(uint32_t *n) {
    *n = GENERATED;
    return rows;
}

/* --- lookup ----------------------------------------------------------------------------------- */

/* Levenshtein distance; UINT32_MAX for input that is longer than any name. */
static uint32_t distance(const char *a, const char *b) {
    enum { MAX = 32 };
    size_t n = strlen(a), k = strlen(b);
    uint32_t row[MAX + 1];
    if (n > MAX || k > MAX) return UINT32_MAX;
    for (uint32_t j = 0; j <= k; j++) row[j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t corner = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= k; j++) {
            uint32_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[k];
}

static const pst_schedule_row *row_of(const char *name) {
    for (uint32_t i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

/* The generated schedule with the most similar name; NULL: none is similar. */
static const pst_schedule_row *nearest(const char *name) {
    const pst_schedule_row *near = NULL;
    uint32_t least = 4;
    for (uint32_t i = 0; i < GENERATED; i++) {
        uint32_t d = distance(name, rows[i].name);
        if (d >= least) continue;
        least = d;
        near = &rows[i];
    }
    return near;
}

pst_status pst_schedule_find(const char *name, const pst_schedule_row **row) {
    char list[256] = "";
    const pst_schedule_row *found = row_of(name), *near = nearest(name);
    if (found) {
        *row = found;
        return PST_OK;
    }
    for (uint32_t i = 0; i < ROWS; i++)
        if (rows[i].kind != PST_SCHEDULE_FORWARD) /* not for training */
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                     rows[i].name);
    if (near)
        return pst_fail(PST_EINPUT,
                        "unknown schedule \"%.64s\"; did you mean \"%s\"? Expected one of %s", name,
                        near->name, list);
    return pst_fail(PST_EINPUT, "unknown schedule \"%.64s\"; expected one of %s", name, list);
}

const char *pst_schedule_name(uint32_t i) { return i < ROWS ? rows[i].name : NULL; }

pst_schedule_kind pst_schedule_kind_of(const char *name) {
    const pst_schedule_row *row = row_of(name);
    return row ? row->kind : PST_SCHEDULE_GENERATED;
}

const char *pst_schedule_name_of(pst_schedule_kind kind) {
    uint32_t i = 0;
    while (rows[i].kind != kind) i++;
    return rows[i].name;
}

const pst_schedule_row *pst_schedule_single_stage(void) {
    uint32_t i = 0;
    while (!rows[i].single_stage) i++;
    return &rows[i];
}

const pst_schedule_row *pst_schedule_with_placement(pst_placement placement, uint32_t n_virtual) {
    const pst_schedule_row *any = NULL;
    for (uint32_t i = 0; i < ROWS; i++) {
        if (!rows[i].placement_for_solved || rows[i].placement != placement) continue;
        if (rows[i].n_virtual == n_virtual) return &rows[i];
        if (!rows[i].n_virtual) any = &rows[i];
    }
    return any;
}

const pst_schedule_row *pst_schedule_with_limit(uint32_t n_virtual) {
    const pst_schedule_row *last = NULL;
    for (uint32_t i = 0; i < ROWS; i++) {
        if (!rows[i].memory_limit_for_solved) continue;
        last = &rows[i];
        if (last->n_virtual == n_virtual) break;
    }
    return last;
}

pst_status pst_schedule_virtual(const pst_schedule_row *row, uint32_t asked, uint32_t *n_virtual) {
    if (asked && row->n_virtual && asked != row->n_virtual)
        return pst_fail(PST_EINPUT,
                        "schedule %s has %u chunk%s per rank, not %u; omit the number of chunks, "
                        "or use interleaved or solved",
                        row->name, row->n_virtual, pst_plural(row->n_virtual), asked);
    *n_virtual = row->n_virtual ? row->n_virtual : 2;
    if (asked) *n_virtual = asked;
    return PST_OK;
}

pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule) {
    const pst_schedule_row *row;
    PST_TRY(pst_schedule_find(name, &row));
    PST_TRY(pst_schedule_virtual(row, n_virtual, &n_virtual));
    if (!row->generate)
        return pst_fail(
            PST_EINPUT,
            "schedule %s cannot be generated from the numbers of stages and micro-batches alone",
            name);
    return row->generate(row, n_rank, n_virtual, n_micro, schedule);
}

pst_status pst_schedule_forward(const pst_schedule *like, uint32_t n_micro,
                                pst_schedule **schedule) {
    const pst_schedule_row *row = &rows[GENERATED - 1];
    PST_TRY(pst_schedule_open(row, like->n_rank, like->n_chunk / like->n_rank, n_micro, schedule));
    memcpy((*schedule)->rank_of_chunk, like->rank_of_chunk,
           like->n_chunk * sizeof *like->rank_of_chunk);
    pst_schedule_fill_forward(*schedule);
    return PST_OK;
}
