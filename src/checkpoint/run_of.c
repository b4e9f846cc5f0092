/* Which run a checkpoint belongs to: that whose folder `checkpoints`, a link or not, holds it by
 * its own name. Checkpoints may lie on another disk, so it is names that count, and links are
 * followed one at a time until a name says it. */
#include "checkpoint/checkpoint.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MAX = 16 };
static const char folder_name[] = "checkpoints/";

/* Single slashes, and none at the end. */
static void normalize(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++)
        if (*from != '/' || to == path || to[-1] != '/') *to++ = *from;
    while (to > path + 1 && to[-1] == '/') to--;
    *to = 0;
}

/* "step-00000100" of "RUN/checkpoints/step-00000100"; NULL when it is no such path. */
static const char *step_of(const char *path) {
    const char *slash = strrchr(path, '/'), *step = slash ? slash + 1 : path;
    size_t before = (size_t)(step - path), n = sizeof folder_name - 1;
    if (before <= n || step[-(ptrdiff_t)n - 1] != '/' || strncmp(step - n, folder_name, n) != 0)
        return NULL;
    size_t digits = strncmp(step, "step-", 5) ? 0 : strspn(step + 5, "0123456789");
    return digits && !step[5 + digits] ? step : NULL;
}

/* Where the link leads, seen from here; NULL when it is none, or for lack of memory. */
static char *follow(const char *path) {
    char target[4096], *out = NULL;
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) return NULL;
    target[n] = 0;
    const char *slash = strrchr(path, '/');
    int kept = *target == '/' || !slash ? 0 : (int)(slash - path) + 1;
    return asprintf(&out, "%.*s%s", kept, path, target) < 0 ? NULL : out;
}

/* The path with its last name followed, or else the one before it. */
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

/* "RUN/checkpoints/STEP" for a checkpoint's path; the caller's, NULL when it belongs to no run. */
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

/* "RUN/checkpoints/STEP": ends the text behind RUN, and returns STEP. */
static const char *split_run(char *place) {
    const char *step = step_of(place);
    place[step - place - (ptrdiff_t)sizeof folder_name] = 0;
    return step;
}

pst_status pst_ckpt_run_of(const char *resume, char *run, size_t bytes) {
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
