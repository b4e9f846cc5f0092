/* Reads trace.json as pipeline/draw/trace.c writes it: one event per line, so that a large file
 * needs no tree in memory. */
#include "pipeline/draw/timeline.h"
#include "base/grow.h"
#include "report/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 16, MAX_PART = 1 << 24 };
static const double MAX_US = 1e15;

static int kind_of(const char *category) {
    static const struct {
        const char *name;
        pst_report_kind kind;
    } kinds[] = {{"F", PST_REPORT_F},
                 {"B", PST_REPORT_B},
                 {"W", PST_REPORT_W},
                 {"BW", PST_REPORT_BW},
                 {"SEND", PST_REPORT_SEND},
                 {"RECV", PST_REPORT_TRANSFER},
                 {"PACK", PST_REPORT_FLUSH},
                 {"UNPACK", PST_REPORT_FLUSH},
                 {"REDUCE", PST_REPORT_FLUSH},
                 {"NORM", PST_REPORT_FLUSH},
                 {"GATHER", PST_REPORT_FLUSH},
                 {"STEP", PST_REPORT_FLUSH},
                 {"VALIDATE", PST_REPORT_FLUSH},
                 {"OUTER", PST_REPORT_FLUSH}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(category, kinds[i].name)) return (int)kinds[i].kind;
    return -1;
}

/* An integer from 0 to below `end`, or `end` if there is none. */
static uint32_t part(const json_t *object, const char *key, uint32_t end) {
    double x = pst_report_number(object, key);
    return x >= 0 && x < end ? (uint32_t)x : end;
}

/* 0: measured, 1: predicted, 2: the process is not that rank's. */
static uint32_t process_of(const json_t *event, uint32_t rank) {
    uint32_t pid = part(event, "pid", 2 * PST_TRACE_PREDICTED);
    if (pid == rank) return 0;
    return pid == PST_TRACE_PREDICTED + rank ? 1 : 2;
}

static pst_status add_slice(const json_t *event, pst_report_trace *t) {
    if (!strcmp(pst_report_text(event, "cat"), "operator"))
        return PST_OK; /* they lie within F, B, W */
    const json_t *args = json_object_get(event, "args");
    int kind = kind_of(pst_report_text(event, "cat"));
    if (kind < 0) return PST_OK; /* operators and unknown events */
    double start = pst_report_number(event, "ts"), dur = pst_report_number(event, "dur");
    uint32_t rank = part(args, "rank", PST_REPORT_RANKS), process = process_of(event, rank);
    if (rank == PST_REPORT_RANKS || process == 2 ||
        !(start >= 0 && dur >= 0 && start + dur <= MAX_US)) {
        t->n_bad++;
        return PST_OK;
    }
    PST_TRY(pst_grow(&t->slice, sizeof *t->slice, t->n, &t->capacity, "to read a trace"));
    int moves = kind == PST_REPORT_SEND || kind == PST_REPORT_TRANSFER;
    t->slice[t->n++] =
        (pst_report_slice){.start = start,
                           .end = start + dur,
                           .rank = rank,
                           .chunk = part(args, moves ? "channel" : "chunk", MAX_PART),
                           .micro = part(args, moves ? "peer" : "micro_batch", MAX_PART),
                           .kind = (uint8_t)kind,
                           .predicted = (uint8_t)process};
    if (rank >= t->n_rank) t->n_rank = rank + 1;
    if (start + dur > t->end[process]) t->end[process] = start + dur;
    return PST_OK;
}

static void read_title(const json_t *event, pst_report_trace *t) {
    if (strcmp(pst_report_text(event, "name"), "process_labels") || *t->title) return;
    snprintf(t->title, sizeof t->title, "%s",
             pst_report_text(json_object_get(event, "args"), "labels"));
}

/* Reads a line of the array: {...}, perhaps with a comma behind it. */
static pst_status read_line(char *text, size_t n, pst_report_trace *t) {
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ',')) n--;
    if (!n || strncmp(text, "{\"name\"", n < 7 ? n : 7)) return PST_OK;
    json_t *event = n > MAX_LINE ? NULL : json_loadb(text, n, 0, NULL);
    pst_status status = PST_OK;
    if (!json_is_object(event)) t->n_bad++;
    else if (!strcmp(pst_report_text(event, "ph"), "X")) status = add_slice(event, t);
    else read_title(event, t);
    json_decref(event);
    return status;
}

/* --- transfers -------------------------------------------------------------------------------- */

static int compare(double a, double b) { return (a > b) - (a < b); }

static int by_rank(const void *a, const void *b) {
    const pst_report_slice *x = a, *y = b;
    if (x->predicted != y->predicted) return x->predicted < y->predicted ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    int order = compare(x->start, y->start);
    return order ? order : compare(x->end, y->end);
}

static int moves(const pst_report_slice *s) {
    return s->kind == PST_REPORT_SEND || s->kind == PST_REPORT_TRANSFER;
}

static uint32_t sender(const pst_report_slice *s) {
    return s->kind == PST_REPORT_SEND ? s->rank : s->micro;
}
static uint32_t receiver(const pst_report_slice *s) {
    return s->kind == PST_REPORT_SEND ? s->micro : s->rank;
}

/* Order: transfers first, grouped by channel between two ranks, sends before receives, each in
 * order of time. */
static int by_channel(const void *a, const void *b) {
    const pst_report_slice *x = a, *y = b;
    if (moves(x) != moves(y)) return moves(x) ? -1 : 1;
    if (!moves(x)) return 0;
    if (x->predicted != y->predicted) return x->predicted < y->predicted ? -1 : 1;
    if (sender(x) != sender(y)) return sender(x) < sender(y) ? -1 : 1;
    if (receiver(x) != receiver(y)) return receiver(x) < receiver(y) ? -1 : 1;
    if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
    if (x->kind != y->kind) return x->kind == PST_REPORT_SEND ? -1 : 1;
    return compare(x->start, y->start);
}

static int same_channel(const pst_report_slice *x, const pst_report_slice *y) {
    return moves(y) && x->predicted == y->predicted && sender(x) == sender(y) &&
           receiver(x) == receiver(y) && x->chunk == y->chunk;
}

/* A rank posts a RECV long before the message is sent: the message is in transit once both have
 * posted. Messages of a channel arrive in the order in which they were sent. */
static void pair_transfers(pst_report_trace *t) {
    for (size_t first = 0, end; first < t->n && moves(&t->slice[first]); first = end) {
        size_t sends = 0;
        for (end = first; end < t->n && same_channel(&t->slice[first], &t->slice[end]); end++)
            sends += t->slice[end].kind == PST_REPORT_SEND;
        for (size_t k = 0; k < sends && first + sends + k < end; k++) {
            pst_report_slice *recv = &t->slice[first + sends + k];
            double sent = t->slice[first + k].start;
            if (sent > recv->start) recv->start = sent < recv->end ? sent : recv->end;
        }
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

pst_status pst_report_read_trace(FILE *file, pst_report_trace *t) {
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    pst_status status = PST_OK;
    while (status == PST_OK && (n = getline(&text, &capacity, file)) > 0)
        status = read_line(text, (size_t)n, t);
    free(text);
    if (!t->n) return status;
    qsort(t->slice, t->n, sizeof *t->slice, by_channel);
    pair_transfers(t);
    qsort(t->slice, t->n, sizeof *t->slice, by_rank);
    return status;
}

void pst_report_release_trace(pst_report_trace *t) {
    free(t->slice);
    *t = (pst_report_trace){0};
}

const pst_report_slice *pst_report_slices(const pst_report_trace *t, int predicted, uint32_t rank,
                                          size_t *n) {
    size_t low = 0, high = t->n, first;
    while (low < high) { /* the first slice that does not belong to an earlier rank */
        size_t middle = low + (high - low) / 2;
        const pst_report_slice *s = &t->slice[middle];
        if (s->predicted < predicted || (s->predicted == predicted && s->rank < rank))
            low = middle + 1;
        else high = middle;
    }
    for (first = low;
         low < t->n && t->slice[low].predicted == predicted && t->slice[low].rank == rank;)
        low++;
    *n = low - first;
    return t->slice + first;
}

/* Sweeps twice over the events: the time covered by computing, and by computing or messages in
 * transit. */
void pst_report_times(const pst_report_trace *t, int predicted, uint32_t rank,
                      double us[PST_REPORT_KIND_COUNT]) {
    size_t n;
    const pst_report_slice *s = pst_report_slices(t, predicted, rank, &n);
    double computing = 0, any = 0, computed_to = 0, any_to = 0;
    memset(us, 0, PST_REPORT_KIND_COUNT * sizeof *us);
    if (!n) return;
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind == PST_REPORT_SEND) continue;
        if (s[i].end > any_to) {
            any += s[i].end - (s[i].start > any_to ? s[i].start : any_to);
            any_to = s[i].end;
        }
        if (s[i].kind == PST_REPORT_TRANSFER) continue;
        us[s[i].kind] += s[i].end - s[i].start;
        if (s[i].end > computed_to) {
            computing += s[i].end - (s[i].start > computed_to ? s[i].start : computed_to);
            computed_to = s[i].end;
        }
    }
    us[PST_REPORT_TRANSFER] = any > computing ? any - computing : 0;
    us[PST_REPORT_IDLE] = t->end[predicted] > any ? t->end[predicted] - any : 0;
}
