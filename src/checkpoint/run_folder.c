/* Finds the run that a checkpoint belongs to: the run whose folder `checkpoints` (a link or not)
 * has it under its own name. Checkpoints may be on another disk, so links are followed one at a
 * time until the path has this form. */
#include "checkpoint/checkpoint.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MAX = 16 };
static const char folder_name[] = "checkpoints/";

/* Removes double and trailing slashes. */
static void normalize(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++)
        if (*from != '/' || to == path || to[-1] != '/') *to++ = *from;
    while (to > path + 1 && to[-1] == '/') to--;
    *to = 0;
}

/* "step-00000100" of "RUN/checkpoints/step-00000100"; NULL if the path has another form. */
static const char *step_of(const char *path) {
    const char *slash = strrchr(path, '/'), *step = slash ? slash + 1 : path;
    size_t before = (size_t)(step - path), n = sizeof folder_name - 1;
    if (before <= n || step[-(ptrdiff_t)n - 1] != '/' || strncmp(step - n, folder_name, n) != 0)
        return NULL;
    size_t digits = strncmp(step, "step-", 5) ? 0 : strspn(step + 5, "0123456789");
    return digits && !step[5 + digits] ? step : NULL;
}

/* The target of a link, relative to the current folder; NULL if it is no link, or without
 * memory. */
static char *follow(const char *path) {
    char target[4096], *out = NULL;
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) return NULL;
    target[n] = 0;
    const char *slash = strrchr(path, '/');
    int kept = *target == '/' || !slash ? 0 : (int)(slash - path) + 1;
    return asprintf(&out, "%.*s%s", kept, path, target) < 0 ? NULL : out;
}

/* The path with the link at its last name resolved, else that at the name before. */
static char *follow_either(const char *path) {
    char *out = follow(path);
    if (out) return out;
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash && slash > folder) {
        *slash = 0;
        char *to = follow(folder);
        if (to && asprintf(&out, "%s/%s", to, slash + 1) < 0) out = NULL;
        free(to);
    }
    free(folder);
    return out;
}

/* "RUN/checkpoints/STEP" for a checkpoint's path, owned by the caller; NULL if it belongs to no
 * run. */
static char *place_of(const char *found) {
    char *at = NULL;
    if (asprintf(&at, "%s%s", strncmp(found, folder_name, sizeof folder_name - 1) ? "" : "./",
                 found) < 0)
        return NULL;
    for (int i = 0; at && i < LINKS_MAX; i++) {
        normalize(at);
        if (step_of(at)) return at;
        char *next = follow_either(at);
        free(at);
        at = next;
    }
    free(at);
    at = realpath(found, NULL);
    if (at && step_of(at)) return at;
    free(at);
    return NULL;
}

/* "RUN/checkpoints/STEP": cuts the text after RUN and returns STEP. */
static const char *split_run(char *place) {
    const char *step = step_of(place);
    place[step - place - (ptrdiff_t)sizeof folder_name] = 0;
    return step;
}

pst_status pst_ckpt_run_folder(const char *resume, char *run, size_t bytes) {
    char *found;
    *run = 0;
    PST_TRY(pst_ckpt_find(resume, &found));
    char *place = place_of(found);
    if (place) split_run(place);
    if (place && strlen(place) < bytes) strcpy(run, place);
    free(place);
    free(found);
    return PST_OK;
}

pst_status pst_ckpt_resumed_run(const char *resume, char *run, size_t bytes) {
    char *found = NULL, *newest = NULL;
    *run = 0;
    PST_TRY(pst_ckpt_find(resume, &found));
    char *place = place_of(found);
    const char *step = place ? split_run(place) : NULL;
    pst_status status = place ? pst_ckpt_find(place, &newest) : PST_OK;
    const char *last = newest ? strrchr(newest, '/') : NULL;
    if (last && !strcmp(last + 1, step) && strlen(place) < bytes) strcpy(run, place);
    free(place);
    free(newest);
    free(found);
    return status == PST_ENOMEM ? status : PST_OK;
}
