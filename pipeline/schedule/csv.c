/* Schedules as CSV, in the format of PyTorch's pipelining runtime: one line per rank, one action
 * per cell, in order; an empty cell means idle. An action is STAGE, F (forward), I (input
 * gradient), W (weight gradient) or B (both), and the micro-batch: 0F0, 3W12;
 * "(0F1;3B0)OVERLAP_F_B" is two actions. Actions that move or reduce data (0SEND_F1, 1UNSHARD, ...)
 * are skipped: the compiler adds its own. A stage is a chunk here. */
#include "pipeline/schedule/csv.h"
#include "base/file.h"
#include "pipeline/schedule/unit_time.h"
#include "pipeline/schedule/build.h"
#include "base/grow.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- writing ---------------------------------------------------------------------------------- */

static const char letter_of[] = {
    [PST_OP_F] = 'F', [PST_OP_B] = 'I', [PST_OP_W] = 'W', [PST_OP_BW] = 'B'};

pst_status pst_schedule_csv_write(const pst_schedule *s, FILE *out) {
    for (uint32_t r = 0; r < s->n_rank; r++) {
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            fprintf(out, "%s%u%c%u", i ? "," : "", a->chunk, letter_of[a->opcode], a->micro);
        }
        fputc('\n', out);
    }
    return ferror(out)
               ? pst_fail(PST_ENOMEM, "the schedule could not be written: %s", strerror(errno))
               : PST_OK;
}

enum { MAX_BYTES = 256 << 20 };

/* --- reading ---------------------------------------------------------------------------------- */

/* An action as written in the file; letter: F, I, W or B. */
typedef struct {
    uint32_t rank, chunk, micro;
    size_t line, column;
    char letter;
} entry;

typedef struct {
    const char *file, *text, *end, *at, *line_start;
    size_t line;
    uint32_t rank;
    entry *entry;
    size_t n, capacity, highest; /* the last entry that raised the highest stage or micro-batch */
    uint32_t n_chunk, n_micro;
    int split; /* I or W occurs */
} reader;

static pst_status fail_at(const reader *r, const char *at, const char *what) {
    int n = 0;
    while (at + n < r->end && n < 24 && at[n] != ',' && at[n] != '\n' &&
           isprint((unsigned char)at[n]))
        n++;
    return pst_fail(PST_EINPUT, "%s:%zu:%zu: %s, found '%.*s'", r->file, r->line,
                    (size_t)(at - r->line_start) + 1, what, n, at);
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

/* A number below `limit`; UINT32_MAX: no digits, or too large. */
static uint32_t number(reader *r, uint32_t limit) {
    const char *from = r->at;
    uint64_t value = 0;
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
        if (value < UINT32_MAX) value = value * 10 + (uint64_t)(*r->at - '0');
    return r->at == from || value >= limit ? UINT32_MAX : (uint32_t)value;
}

static pst_status add_entry(reader *r, entry e) {
    PST_TRY(pst_grow(&r->entry, sizeof *r->entry, r->n, &r->capacity,
                     "to read the actions of a schedule"));
    if (e.chunk >= r->n_chunk || e.micro >= r->n_micro) r->highest = r->n;
    r->entry[r->n++] = e;
    if (e.chunk >= r->n_chunk) r->n_chunk = e.chunk + 1;
    if (e.micro >= r->n_micro) r->n_micro = e.micro + 1;
    if (e.letter == 'I' || e.letter == 'W') r->split = 1;
    return PST_OK;
}

/* Whether the word is an action that computes nothing. */
static int moves_data(const char *word, size_t n) {
    static const char *const words[] = {
        "WAIT_REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B", "REDUCE_GRAD", "UNSHARD",
        "RESHARD",          "SEND_F",      "RECV_F",      "SEND_B",      "RECV_B"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !memcmp(word, words[i], n)) return 1;
    return 0;
}

static pst_status read_action(reader *r) {
    const char *from = r->at;
    entry e = {.rank = r->rank, .line = r->line, .column = (size_t)(from - r->line_start) + 1};
    if ((e.chunk = number(r, PST_SCHEDULE_MAX_CHUNK)) == UINT32_MAX)
        return fail_at(r, from, "expected an action such as 0F0, 1I3 or 1W3");
    const char *word = r->at;
    while (r->at < r->end && (isupper((unsigned char)*r->at) || *r->at == '_')) r->at++;
    size_t n = (size_t)(r->at - word);
    if (moves_data(word, n)) {
        number(r, UINT32_MAX);
        return PST_OK;
    }
    if (n != 1 || !strchr("FIWB", *word))
        return fail_at(r, from, "expected F, B, I or W after the stage");
    e.letter = *word;
    if ((e.micro = number(r, PST_SCHEDULE_MAX_MICRO)) == UINT32_MAX)
        return fail_at(r, from, "expected the number of a micro-batch after the letter");
    return add_entry(r, e);
}

/* "(0F1;3B0)OVERLAP_F_B" */
static pst_status read_overlapped(reader *r) {
    static const char overlap[] = ")OVERLAP_F_B";
    do {
        r->at++;
        skip_blanks(r);
        PST_TRY(read_action(r));
        skip_blanks(r);
    } while (r->at < r->end && *r->at == ';');
    size_t n = strlen(overlap);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, overlap, n))
        return fail_at(r, r->at, "expected )OVERLAP_F_B after the overlapped actions");
    r->at += n;
    return PST_OK;
}

static pst_status read_line(reader *r) {
    for (;; r->at++) {
        skip_blanks(r);
        if (r->at < r->end && *r->at == '(') PST_TRY(read_overlapped(r));
        else if (r->at < r->end && *r->at != ',' && *r->at != '\n') PST_TRY(read_action(r));
        skip_blanks(r);
        if (r->at == r->end || *r->at == '\n') return PST_OK;
        if (*r->at != ',') return fail_at(r, r->at, "expected a comma after an action");
    }
}

static pst_status read_lines(reader *r) {
    for (r->line = 1; r->at < r->end; r->line++, r->rank++) {
        r->line_start = r->at;
        if (r->rank >= PST_SCHEDULE_MAX_RANK)
            return fail_at(r, r->at, "too many ranks; expected at most 65535");
        PST_TRY(read_line(r));
        if (r->at < r->end) r->at++;
    }
    if (!r->n)
        return pst_fail(PST_EINPUT,
                        "%s: the file has no actions; expected one line of actions per rank",
                        r->file);
    if ((uint64_t)r->n_chunk * r->n_micro <= r->n) return PST_OK;
    const entry *e = &r->entry[r->highest];
    return pst_fail(PST_EINPUT,
                    "%s:%zu:%zu: stage %u, micro-batch %u: the file has only %zu actions; expected "
                    "at least one for each of %u stages and %u micro-batches",
                    r->file, e->line, e->column, e->chunk, e->micro, r->n, r->n_chunk, r->n_micro);
}

/* --- from entries to a schedule --------------------------------------------------------------- */

static pst_status place_chunks(const reader *r, pst_schedule *s) {
    memset(s->rank_of_chunk, 0xff, s->n_chunk * sizeof *s->rank_of_chunk);
    for (size_t i = 0; i < r->n; i++) {
        const entry *e = &r->entry[i];
        uint32_t *rank = &s->rank_of_chunk[e->chunk];
        if (*rank != UINT32_MAX && *rank != e->rank)
            return pst_fail(
                PST_EINPUT,
                "%s:%zu:%zu: stage %u is also on rank %u; expected each stage on one rank", r->file,
                e->line, e->column, e->chunk, *rank);
        *rank = e->rank;
        s->n_action[e->rank] += e->letter == 'B' && s->split ? 2 : 1;
        s->backward |= e->letter != 'F';
    }
    for (uint32_t c = 0; c < s->n_chunk; c++)
        if (s->rank_of_chunk[c] == UINT32_MAX)
            return pst_fail(PST_EINPUT,
                            "%s: stage %u has no actions; expected actions for every stage from 0 "
                            "to the highest",
                            r->file, c);
    return PST_OK;
}

/* Every rank has the same number of chunks: plans and evaluation rely on that. */
static pst_status check_chunks_per_rank(const reader *r, const pst_schedule *s) {
    uint32_t each = s->n_chunk / s->n_rank, most = PST_SCHEDULE_MAX_VIRTUAL;
    for (uint32_t k = 0; k < s->n_rank; k++) {
        uint32_t n = 0;
        for (uint32_t c = 0; c < s->n_chunk; c++) n += s->rank_of_chunk[c] == k;
        if (each ? n == each && n <= most : n > 0) continue;
        return pst_fail(
            PST_EINPUT,
            "%s:%u: rank %u has %u of %u stages; expected the same number on every rank, 1 to %u",
            r->file, k + 1, k, n, s->n_chunk, most);
    }
    return PST_OK;
}

static pst_status check_ends(const pst_schedule *s, uint32_t *rank, uint32_t *action) {
    pst_unit_time unit_time;
    pst_status status = pst_unit_time_open(s, &unit_time);
    *rank = unit_time.stuck_rank;
    *action = unit_time.stuck_action;
    pst_unit_time_close(&unit_time);
    return status;
}

/* Names the line and column of a wrong action. */
static pst_status check(const reader *r, const pst_schedule *s) {
    uint32_t rank, action;
    pst_status status = pst_schedule_check_at(s, &rank, &action);
    if (status == PST_OK) status = check_ends(s, &rank, &action);
    if (status == PST_OK || rank == UINT32_MAX) return status;
    if (action == UINT32_MAX) return pst_fail_in(status, "%s:%u", r->file, rank + 1);
    const entry *e = r->entry;
    for (uint64_t passed = 0;; e++) {
        if (e->rank != rank) continue;
        passed += e->letter == 'B' && s->split ? 2 : 1;
        if (passed > action) return pst_fail_in(status, "%s:%zu:%zu", r->file, e->line, e->column);
    }
}

static pst_status fill(const reader *r, pst_schedule *s) {
    s->rank_of_chunk = malloc(s->n_chunk * sizeof *s->rank_of_chunk);
    s->n_action = calloc(s->n_rank, sizeof *s->n_action);
    s->action = calloc(s->n_rank, sizeof *s->action);
    if (!s->rank_of_chunk || !s->n_action || !s->action)
        return pst_fail(PST_ENOMEM, "%s: no memory for a schedule", r->file);
    PST_TRY(place_chunks(r, s));
    PST_TRY(check_chunks_per_rank(r, s));
    for (uint32_t k = 0; k < s->n_rank; k++) {
        if (!(s->action[k] = malloc(((size_t)s->n_action[k] + 1) * sizeof **s->action)))
            return pst_fail(PST_ENOMEM, "%s: no memory for %u actions", r->file, s->n_action[k]);
        s->n_action[k] = 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        const entry *e = &r->entry[i];
        pst_opcode op = PST_OP_F;
        while (letter_of[op] != e->letter) op++;
        if (op == PST_OP_BW) pst_schedule_add_backward(s, e->rank, e->chunk, e->micro);
        else pst_schedule_add(s, e->rank, op, e->chunk, e->micro);
    }
    return check(r, s);
}

pst_status pst_schedule_csv_parse(const char *text, size_t bytes, const char *file,
                                  pst_schedule **schedule) {
    static const char mark[] = "\xef\xbb\xbf"; /* byte-order mark of UTF-8, written by spreadsheets
                                                */
    uint32_t skip = bytes >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
    reader r = {.file = file,
                .text = text,
                .end = text + bytes,
                .at = text + skip,
                .line_start = text + skip};
    pst_schedule *s = calloc(1, sizeof *s);
    pst_status status =
        s ? read_lines(&r) : pst_fail(PST_ENOMEM, "%s: no memory for a schedule", file);
    if (status == PST_OK) {
        strcpy(s->name, "custom");
        s->n_rank = r.rank;
        s->n_chunk = r.n_chunk;
        s->n_micro = r.n_micro;
        s->split = r.split;
        status = fill(&r, s);
        if (status != PST_OK && strncmp(pst_error(), file, strlen(file)))
            status = pst_fail_in(status, "%s", file);
    }
    free(r.entry);
    if (status == PST_OK) *schedule = s;
    else pst_schedule_close(s);
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *schedule) {
    return pst_schedule_csv_parse(text, bytes, file, schedule);
}

pst_status pst_schedule_csv_load(const char *path, pst_schedule **schedule) {
    return pst_file_parse(path, MAX_BYTES, parse_into, schedule);
}
