/* See encode.h. Small files are joined in groups, which are one piece each; a larger file is a
 * group with several pieces. Threads and processes look for work in the same order. */
#include "data/encode_parts.h"
#include "base/log.h"
#include "data/indexed.h"
#include "data/piece_file.h"
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 16 << 20, /* bytes of text, unless the options say otherwise */
    EXPANSION = 4,    /* of compressed text, for the size of groups */
    MOST_THREADS = 64,
};
static const char to_encode[] = "to encode text";

const pst_encode_form pst_encode_as_files = {.name = "", .ends = 1, .scale = 1};
const pst_encode_form pst_encode_as_lines = {.name = "lines", .line = &pst_line_plain, .scale = 1};
const pst_encode_form pst_encode_as_sentences = {
    .name = "sentences", .line = &pst_line_bordered, .scale = 1};

static uint32_t ranks_here = 1;
static int shows = 1;

void pst_encode_set_ranks(uint32_t here, int shows_progress) {
    ranks_here = here ? here : 1;
    shows = shows_progress;
}
int pst_encode_shows(void) { return shows; }
int pst_encode_signal(void) { return pst_encode_signals_came(); }

/* --- groups ----------------------------------------------------------------------------------- */

static int is_compressed(const char *path) {
    size_t n = strlen(path);
    return (n > 3 && !strcmp(path + n - 3, ".gz")) || (n > 4 && !strcmp(path + n - 4, ".zst"));
}

static uint64_t text_bytes(const pst_file *f) {
    return is_compressed(f->path) ? EXPANSION * f->bytes : f->bytes;
}

static pst_status make_groups(pst_encode_job *j) {
    const pst_file_list *list = j->o->files;
    uint64_t in_group = 0, before = 0;
    if (!(j->group = malloc(((size_t)list->n + 1) * sizeof *j->group)))
        return pst_no_memory(to_encode);
    for (uint32_t i = 0; i < list->n; i++) {
        uint64_t bytes = text_bytes(&list->file[i]);
        if (!i || in_group + bytes > j->piece) {
            j->group[j->n_group++] = (pst_encode_group){i, 0, before};
            in_group = 0;
        }
        j->group[j->n_group - 1].n++;
        in_group += bytes;
        before += list->file[i].bytes;
    }
    j->progress.total = before;
    return PST_OK;
}

/* --- one piece -------------------------------------------------------------------------------- */

typedef struct {
    pst_encode_job *j;
    pst_encoder *e;
    uint32_t g;          /* its group is open: */
    pst_text_file *file; /* NULL: none is */
    pst_piece_writer *writer;
} worker;

static void show_progress(const worker *w) {
    const pst_encode_group *g = &w->j->group[w->g];
    uint64_t stored = w->file ? pst_text_file_stored(w->file) : 0;
    pst_encode_progress_set(&w->j->progress, g->before + stored);
}

static pst_status add(void *to, const int32_t *id, size_t n) {
    worker *w = to;
    show_progress(w);
    if (w->j->failed || pst_encode_signals_came()) return pst_fail(PST_BUSY, "stopped");
    return pst_piece_file_add(w->writer, id, n);
}

static pst_status end_document(void *to) {
    worker *w = to;
    const int32_t *end = &w->j->o->end;
    if (*end >= 0) PST_TRY(pst_piece_file_add(w->writer, end, 1));
    return pst_piece_file_end_document(w->writer);
}

static pst_status encode_file(worker *w, pst_text_piece *p) {
    const pst_encode_options *o = w->j->o;
    const pst_documents out = {add, end_document, w};
    const pst_line_form json = pst_json_lines_form(&o->lines), *line = o->form->line;
    if (!o->form->all && o->lines.field && *o->lines.field && pst_json_lines_is(p->path))
        line = &json;
    return line ? pst_lines_piece(w->e, p, line, &out) : pst_piece_encode(w->e, p, &out);
}

static pst_status check_size(const pst_file *f) {
    struct stat st;
    if (stat(f->path, &st) == 0 && (uint64_t)st.st_size == f->bytes) return PST_OK;
    return pst_fail(PST_EINPUT, "%s has changed while it was read", f->path);
}

/* Files of a group one after another, or a piece of the only one. */
static pst_status encode_piece(worker *w, uint64_t k, int *ended, uint64_t *skipped) {
    const pst_encode_group *g = &w->j->group[w->g];
    const pst_file *file = &w->j->o->files->file[g->first];
    int whole = g->n > 1 || pst_tokenizer_in_order(w->j->o->tokenizer);
    for (uint32_t i = 0; i < g->n; i++) {
        pst_text_piece p = {.path = file[i].path, .from = whole ? 0 : k * w->j->piece};
        p.to = whole ? UINT64_MAX : p.from + w->j->piece;
        if (!w->file) PST_TRY(pst_text_file_open(p.path, &w->file));
        p.file = w->file;
        PST_TRY(encode_file(w, &p));
        PST_TRY(check_size(&file[i]));
        *ended = p.ended || whole;
        *skipped += p.skipped;
        if (g->n == 1) continue;
        pst_text_file_close(w->file);
        w->file = NULL;
    }
    return PST_OK;
}

/* *state: what became of the piece. */
typedef enum { ELSEWHERE, DONE, LAST } piece_state;
static pst_status take_piece(worker *w, uint64_t k, const char *path, piece_state *state) {
    const pst_encode_options *o = w->j->o;
    pst_piece_record record;
    int done, ended = 0;
    uint64_t skipped = 0;
    PST_TRY(pst_piece_file_find(path, o->key, w->j->bytes, &done, &record));
    *state = ELSEWHERE;
    if (!done) {
        PST_TRY(pst_piece_file_claim(path, o->key, w->j->bytes, &w->writer));
        if (!w->writer) return PST_OK;
        /* pieces are removed only after the data set is complete */
        pst_status status = o->exists && o->exists(o->what) ? pst_fail(PST_BUSY, "complete")
                                                            : encode_piece(w, k, &ended, &skipped);
        PST_TRY(pst_piece_file_finish(w->writer, skipped, ended, status));
        record.ended = (uint64_t)ended;
    }
    *state = record.ended ? LAST : DONE;
    return PST_OK;
}

/* --- all pieces ------------------------------------------------------------------------------- */

/* 1: piece k of a file that is not compressed begins at or after its end, so there is none. */
static int is_beyond(const pst_encode_job *j, const pst_encode_group *g, uint64_t k) {
    const pst_file *f = &j->o->files->file[g->first];
    return k && g->n == 1 && !is_compressed(f->path) && k * j->piece >= f->bytes;
}

/* Takes all pieces of a group that nobody else does; *complete: all are finished. */
static pst_status take_group(worker *w, int *complete) {
    const pst_encode_group *g = &w->j->group[w->g];
    piece_state state = DONE;
    *complete = 1;
    for (uint64_t k = 0; state != LAST; k++) {
        if (!*complete && (is_beyond(w->j, g, k) || g->n > 1)) break;
        char *path = pst_encode_path(w->j, w->g, k);
        pst_status status = path ? take_piece(w, k, path, &state) : pst_no_memory(to_encode);
        free(path);
        PST_TRY(status);
        if (state == ELSEWHERE) *complete = 0;
        if (state == ELSEWHERE && pst_tokenizer_in_order(w->j->o->tokenizer)) break;
    }
    return PST_OK;
}

static pst_status take_all(worker *w, uint32_t *first, int *complete) {
    *complete = 1;
    for (w->g = *first; w->g < w->j->n_group; w->g++) {
        int all;
        pst_status status = take_group(w, &all);
        pst_text_file_close(w->file);
        w->file = NULL;
        PST_TRY(status);
        *complete &= all;
        if (*complete) *first = w->g + 1;
    }
    return PST_OK;
}

static pst_status work(worker *w) {
    const pst_encode_options *o = w->j->o;
    uint32_t first = 0;
    pst_encode_stall s = {0};
    for (int complete = 0;;) {
        PST_TRY(take_all(w, &first, &complete));
        if (complete || (o->exists && o->exists(o->what))) return PST_OK;
        PST_TRY(pst_encode_wait(w->j, &s));
    }
}

static void fail(pst_encode_job *j, pst_status status) {
    pthread_mutex_lock(&j->lock);
    if (!j->failed) {
        j->status = status;
        snprintf(j->message, sizeof j->message, "%s", pst_error());
    }
    j->failed = 1;
    pthread_mutex_unlock(&j->lock);
}

static void *run_worker(void *arg) {
    worker w = {.j = arg};
    const pst_encode_options *o = w.j->o;
    pst_status status = pst_encoder_open(o->tokenizer, o->special, &w.e);
    if (status == PST_OK) status = work(&w);
    if (status != PST_OK) fail(w.j, status);
    pst_encoder_close(w.e);
    return NULL;
}

static uint32_t number_of_threads(const pst_encode_job *j) {
    cpu_set_t set;
    uint64_t pieces = j->progress.total / j->piece + 1;
    uint32_t n = j->o->threads;
    if (!n && sched_getaffinity(0, sizeof set, &set) == 0)
        n = (uint32_t)CPU_COUNT(&set) / ranks_here;
    if (n > MOST_THREADS) n = MOST_THREADS;
    if (n > pieces) n = (uint32_t)pieces;
    return n ? n : 1;
}

/* A thread that cannot be started is not missed. */
static pst_status run_threads(pst_encode_job *j) {
    pthread_t thread[MOST_THREADS];
    uint32_t n = number_of_threads(j), started = 0;
    while (started + 1 < n && !pthread_create(&thread[started], NULL, run_worker, j)) started++;
    run_worker(j);
    while (started) pthread_join(thread[--started], NULL);
    return j->failed ? pst_fail(j->status, "%s", j->message) : PST_OK;
}

static pst_status prepare(pst_encode_job *j) {
    const pst_encode_options *o = j->o;
    if (asprintf(&j->folder, "%s.parts", o->prefix) < 0) j->folder = NULL;
    if (!j->folder) return pst_no_memory(to_encode);
    int made = !mkdir(j->folder, 0777);
    if (!made && errno != EEXIST)
        return pst_fail(pst_status_of_errno(errno), "cannot make the folder %s: %s", j->folder,
                        strerror(errno));
    /* the folder of others goes when their data set is complete, which may be this one */
    if (made && !(o->exists && o->exists(o->what))) PST_TRY(pst_encode_check_kept(o));
    if (pst_encode_remove(j, 1))
        pst_log(PST_LOG_INFO, "%s: pieces of other text or options removed", j->folder);
    return make_groups(j);
}

/* Bytes before the first piece that is not finished: what other runs left is not part of the speed.
 */
static uint64_t bytes_before(pst_encode_job *j) {
    pst_piece_record record;
    for (uint32_t g = 0; g < j->n_group; g++) {
        for (uint64_t k = 0, ended = 0; !ended; k++) {
            char *path = pst_encode_path(j, g, k);
            int done = 0;
            if (path && pst_piece_file_find(path, j->o->key, j->bytes, &done, &record) != PST_OK)
                done = 0;
            free(path);
            if (!done) return j->group[g].before + k * j->piece;
            ended = record.ended;
        }
    }
    return j->progress.total;
}

/* A piece that was damaged, on the disk or by a crash of the system, is encoded again. */
static pst_status run_and_join(pst_encode_job *j) {
    for (int tries = 0;; tries++) {
        int damaged = 0;
        PST_TRY(run_threads(j));
        pst_status status = pst_encode_join(j, &damaged);
        if (!damaged || tries == 3) return status;
        pst_log(PST_LOG_WARN, "data: %s; it is encoded again", pst_error());
    }
}

static pst_status encode_and_join(pst_encode_job *j) {
    PST_TRY(prepare(j));
    uint64_t total = j->progress.total, before = bytes_before(j);
    if (before > total) before = total;
    if (before && before < total && shows)
        pst_log(PST_LOG_INFO, "data: %.0f %% are encoded already; the encoding continues there",
                100.0 * (double)before / (double)total);
    pst_encode_progress_open(&j->progress, total, before, shows);
    pst_status status = run_and_join(j);
    pst_encode_progress_close(&j->progress);
    return status;
}

/* A process that waited may have made the folder again after the data set was complete. The folder
 * stays if it has pieces of an encoding that is not complete. */
static void remove_folder(const pst_encode_job *j, pst_status status) {
    const pst_encode_options *o = j->o;
    if (status == PST_OK || (o->exists && o->exists(o->what))) pst_encode_remove(j, 0);
    rmdir(j->folder);
}

pst_status pst_encode_files(const pst_encode_options *o) {
    pst_encode_job j = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    pst_encode_signals signals;
    int handled;
    j.piece = o->piece ? o->piece : PIECE;
    j.bytes = pst_indexed_bytes(pst_tokenizer_size(o->tokenizer));
    pst_encode_signals_open(&signals);
    pst_status status = encode_and_join(&j);
    int number = pst_encode_signals_close(&signals, &handled);
    if (status == PST_BUSY && number && shows)
        pst_log(PST_LOG_WARN,
                "stopped; what is encoded stays in %s, and the same command continues there",
                j.folder);
    if (j.folder) remove_folder(&j, status);
    free(j.folder);
    free(j.group);
    if (status == PST_BUSY && number && !handled) raise(number);
    if (status == PST_BUSY && !number) status = PST_OK; /* completed by another process */
    return status;
}
