/* The pieces of an encoding become an indexed data set. See encode_parts.h. */
#include "base/file.h"
#include "base/log.h"
#include "data/encode_parts.h"
#include "data/indexed.h"
#include "data/piece_file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char to_encode[] = "to encode text";

static pst_status join_piece(pst_encode_job *j, pst_indexed_writer *w, const char *path,
                             pst_piece_record *record, uint64_t *open) {
    uint64_t *length;
    FILE *f;
    pst_status status = pst_piece_file_open(path, j->o->key, j->bytes, record, &length, &f);
    if (status != PST_OK) unlink(path);
    PST_TRY(status);
    status = pst_indexed_copy(w, f, record->tokens);
    for (uint64_t i = 0; status == PST_OK && i < record->documents; i++) {
        status = pst_indexed_end_at(w, *open + length[i]);
        *open = 0;
    }
    *open += record->open;
    fclose(f);
    free(length);
    return status;
}

static pst_status join_pieces(pst_encode_job *j, pst_indexed_writer *w, uint64_t *skipped,
                              int *damaged) {
    uint64_t open = 0;
    *skipped = 0;
    for (uint32_t g = 0; g < j->n_group; g++) {
        pst_piece_record record = {.ended = 0};
        for (uint64_t k = 0; !record.ended; k++) {
            char *path = pst_encode_path(j, g, k);
            if (!path) return pst_no_memory(to_encode);
            pst_status status = join_piece(j, w, path, &record, &open);
            *damaged = status == PST_EINPUT && access(path, F_OK);
            free(path);
            PST_TRY(status);
            if (pst_encode_signals_came()) return pst_fail(PST_BUSY, "stopped");
            *skipped += record.skipped;
        }
    }
    return PST_OK;
}

pst_status pst_encode_check_kept(const pst_encode_options *o) {
    static const char *const ending[] = {"bin", "idx"};
    for (int i = 0; o->keep && i < 2; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s.%s", o->prefix, ending[i]) < 0) return pst_no_memory(to_encode);
        pst_status status = pst_file_check_new(path);
        free(path);
        PST_TRY(status);
    }
    return PST_OK;
}

static pst_status join_locked(pst_encode_job *j, int *damaged) {
    const pst_encode_options *o = j->o;
    uint64_t skipped = 0;
    pst_indexed_writer *w = NULL;
    if (o->exists && o->exists(o->what)) return PST_OK;
    PST_TRY(pst_encode_check_kept(o));
    PST_TRY(pst_indexed_create(o->prefix, pst_tokenizer_size(o->tokenizer) * o->form->scale, &w));
    pst_status status = join_pieces(j, w, &skipped, damaged);
    status = pst_indexed_finish(w, status);
    if (status == PST_OK && o->complete) status = o->complete(o->what, skipped);
    return status;
}

/* One process joins the pieces; the others wait for it. */
pst_status pst_encode_join(pst_encode_job *j, int *damaged) {
    const pst_encode_options *o = j->o;
    char *path = NULL;
    pst_encode_stall s = {0};
    if (asprintf(&path, "%s/lock", j->folder) < 0) return pst_no_memory(to_encode);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    int error = errno;
    free(path);
    if (fd < 0 && o->exists && o->exists(o->what)) return PST_OK;
    if (fd < 0)
        return pst_fail(pst_status_of_errno(error), "cannot write in %s: %s", j->folder,
                        strerror(error));
    pst_status status = PST_OK;
    while (status == PST_OK && flock(fd, LOCK_EX | LOCK_NB)) {
        int waits = errno == EWOULDBLOCK || errno == EINTR;
        status = waits ? pst_encode_wait(j, &s)
                       : pst_fail(pst_status_of_errno(errno), "cannot lock in %s: %s", j->folder,
                                  strerror(errno));
    }
    if (status == PST_OK) status = join_locked(j, damaged);
    close(fd);
    return status;
}
