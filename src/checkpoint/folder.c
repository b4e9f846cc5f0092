/* The folder of checkpoints: names, the newest, the best, and which may be removed. */
#include "checkpoint/durable.h"
#include "checkpoint/parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 1 if `name` is prefix + digits; other names are never touched. */
static int step_of(const char *name, const char *prefix, uint64_t *step) {
    size_t n = strlen(prefix),
           digits = strncmp(name, prefix, n) ? 0 : strspn(name + n, "0123456789");
    if (digits < 8 || name[n + digits]) return 0;
    *step = strtoull(name + n, NULL, 10);
    return 1;
}

static int has_index(const char *folder) {
    char path[4096];
    int used = snprintf(path, sizeof path, "%s/index.json", folder);
    return used < (int)sizeof path && access(path, F_OK) == 0;
}

void pst_ckpt_clean_until(const char *folder, uint64_t last) {
    uint64_t step;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!step_of(e->d_name, ".tmp-step-", &step) || step > last) continue;
        char *path = pst_ckpt_join(folder, e->d_name);
        if (path) pst_durable_remove(path);
        free(path);
    }
    if (dir) closedir(dir);
}

void pst_ckpt_clean(const char *folder) { pst_ckpt_clean_until(folder, UINT64_MAX); }

void pst_ckpt_abandon(const char *folder, uint64_t step) {
    char *path = pst_ckpt_folder(folder, step, 1);
    if (path) pst_durable_remove(path);
    free(path);
}

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Steps of the checkpoints with an index (complete 1) or without, newest first; the caller
 * frees. */
static pst_status list_steps(const char *folder, int complete, uint64_t **out, size_t *n) {
    uint64_t step, *steps = NULL;
    size_t count = 0;
    pst_status status = PST_OK;
    DIR *dir = opendir(folder);
    if (!dir) return pst_fail(pst_status_of_errno(errno), "%s: %s", folder, strerror(errno));
    for (struct dirent *e; status == PST_OK && (e = readdir(dir));) {
        if (!step_of(e->d_name, "step-", &step)) continue;
        char *path = pst_ckpt_join(folder, e->d_name);
        int wanted = path && has_index(path) == complete;
        uint64_t *more = wanted ? realloc(steps, (count + 1) * sizeof *steps) : NULL;
        if (!path) status = PST_ENOMEM;
        else if (more) {
            steps = more;
            steps[count++] = step;
        } else if (wanted)
            status = pst_fail(PST_ENOMEM, "%s: no memory to list the checkpoints", folder);
        free(path);
    }
    closedir(dir);
    if (status != PST_OK) {
        free(steps);
        return status;
    }
    if (count) qsort(steps, count, sizeof *steps, descending);
    *out = steps;
    *n = count;
    return PST_OK;
}

uint64_t pst_ckpt_before(const char *folder, int complete, uint64_t step) {
    uint64_t *steps = NULL, found = UINT64_MAX;
    size_t n = 0;
    if (list_steps(folder, complete, &steps, &n) != PST_OK) pst_error_clear();
    for (size_t i = n; i-- > 0;)
        if (steps[i] < step) found = steps[i];
    free(steps);
    return found;
}

static int lies_in(const char *folder, const char *name) {
    char *path = pst_ckpt_join(folder, name);
    int there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

static pst_status newest_in(const char *folder, char **out) {
    uint64_t *steps = NULL;
    size_t n = 0;
    PST_TRY(list_steps(folder, 1, &steps, &n));
    char *found = n ? pst_ckpt_folder(folder, steps[0], 0) : NULL;
    free(steps);
    if (!n && lies_in(folder, "model.safetensors") && !lies_in(folder, "config.json"))
        return pst_fail(
            PST_EINPUT,
            "%s contains no complete checkpoint; a Hugging Face model needs config.json", folder);
    if (!n) return pst_fail(PST_EINPUT, "%s contains no complete checkpoint", folder);
    if (!found) return PST_ENOMEM;
    *out = found;
    return PST_OK;
}

pst_status pst_ckpt_find(const char *path, char **folder) {
    if (access(path, F_OK))
        return pst_fail(PST_EINPUT,
                        "no checkpoint: %s: %s; expected the folder of a run or a checkpoint", path,
                        strerror(errno));
    if (has_index(path)) {
        if (!(*folder = strdup(path))) return pst_no_memory("to find a checkpoint");
        return PST_OK;
    }
    char *below = pst_ckpt_join(path, "checkpoints");
    if (!below) return PST_ENOMEM;
    /* Reports a link to a missing disk as such. */
    int there = faccessat(AT_FDCWD, below, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    pst_status status = newest_in(there ? below : path, folder);
    free(below);
    return status;
}

/* NaN if it is unknown. */
static double loss_of(const char *folder, uint64_t step, const char *best_of) {
    double loss = NAN;
    pst_ckpt *c = NULL;
    char *text = NULL, *name = pst_ckpt_folder(folder, step, 0);
    char *path = name ? pst_ckpt_join(name, "index.json") : NULL;
    size_t bytes;
    if (path && pst_ckpt_text(path, PST_CKPT_MAX_INDEX, &text, &bytes) == PST_OK &&
        pst_ckpt_parse(text, bytes, path, &c) == PST_OK)
        loss = *best_of ? c->info.chosen_loss : c->info.validation_loss;
    if (c && *best_of && strcmp(c->info.best_of, best_of)) loss = NAN;
    pst_ckpt_close(c);
    free(text);
    free(path);
    free(name);
    return loss;
}

/* Sets the link folder/best to a checkpoint, in one step. */
static void link_best(const char *folder, uint64_t step) {
    char target[64], *fresh = pst_ckpt_join(folder, ".tmp-best"),
                     *best = pst_ckpt_join(folder, "best");
    snprintf(target, sizeof target, "step-%08" PRIu64, step);
    if (fresh && best) {
        unlink(fresh);
        if (symlink(target, fresh) || rename(fresh, best)) unlink(fresh);
    }
    free(fresh);
    free(best);
}

static int stays(const pst_ckpt_kept *kept, uint64_t step, uint64_t best) {
    if (kept->every && step && step % kept->every == 0) return 1;
    return step == best || step == kept->current;
}

void pst_ckpt_prune(const char *folder, const pst_ckpt_kept *kept) {
    uint64_t *steps = NULL, best = UINT64_MAX;
    size_t n = 0;
    double lowest = INFINITY;
    if (list_steps(folder, 1, &steps, &n) != PST_OK) return;
    for (size_t i = n; i-- > 0;) { /* of equal losses the earliest */
        double loss = loss_of(folder, steps[i], kept->best_of ? kept->best_of : "");
        if (!(loss < lowest)) continue;
        lowest = loss;
        best = steps[i];
    }
    if (best != UINT64_MAX) link_best(folder, best);
    for (size_t i = kept->newest; kept->newest && i < n; i++) {
        if (stays(kept, steps[i], best)) continue;
        /* Renames first, so that a half-removed folder never looks like a checkpoint. */
        char *name = pst_ckpt_folder(folder, steps[i], 0),
             *gone = pst_ckpt_folder(folder, steps[i], 1);
        if (name && gone && rename(name, gone) == 0) pst_durable_remove(gone);
        free(name);
        free(gone);
    }
    free(steps);
}
