/* See solved_file.h. The file is JSON: {"chunks": per rank, "solved": a line about the result,
 * "schedules": [CSV, ...]}. */
#include "prepare/solved_file.h"
#include "base/log.h"
#include "pipeline/schedule/csv.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "PENSTOCK_SOLVED_FD"

/* --- the launcher ----------------------------------------------------------------------------- */

/* NULL: no memory. */
static json_t *as_csv(const pst_schedule *s) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    int ok = f && pst_schedule_csv_write(s, f) == PST_OK;
    if (f && fclose(f)) ok = 0;
    json_t *csv = ok ? json_stringn(text, bytes) : NULL;
    free(text);
    return csv;
}

/* One schedule for each number of micro-batches of a replica. */
static json_t *as_json(const pst_prepared *p) {
    json_t *schedules = json_array();
    for (uint32_t k = 0; k < p->grid.data; k++) {
        int again = 0;
        for (uint32_t j = 0; j < k; j++) again |= p->schedules[j] == p->schedules[k];
        if (again || json_array_append_new(schedules, as_csv(p->schedules[k])) == 0) continue;
        json_decref(schedules);
        return NULL;
    }
    return json_pack("{s:i,s:s,s:o}", "chunks", (int)(p->schedule->n_chunk / p->schedule->n_rank),
                     "solved", p->solved, "schedules", schedules);
}

static int write_file(int fd, const json_t *j) {
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    return j && json_dumpfd(j, fd, 0) == 0 && setenv(VARIABLE, number, 1) == 0;
}

void pst_solved_file_write(const pst_prepared *p) {
    unsetenv(VARIABLE);
    if (!*p->solved) return;
    int fd = memfd_create("penstock-solved", 0); /* without close-on-exec: ranks inherit it */
    json_t *j = fd < 0 ? NULL : as_json(p);
    if (!write_file(fd, j)) {
        pst_log(PST_LOG_DEBUG,
                "schedule solved: each rank solves it again, because the launcher's result could "
                "not be shared: %s",
                strerror(errno));
        if (fd >= 0) close(fd);
    }
    json_decref(j);
}

/* --- a rank ----------------------------------------------------------------------------------- */

static json_t *read_file(void) {
    const char *number = getenv(VARIABLE);
    char *end, *text;
    struct stat about;
    json_t *j = NULL;
    long fd = number ? strtol(number, &end, 10) : -1;
    if (fd <= 2 || fd > 1 << 20 || *end || fstat((int)fd, &about) || about.st_size <= 0)
        return NULL;
    if (!(text = malloc((size_t)about.st_size))) return NULL;
    if (pread((int)fd, text, (size_t)about.st_size, 0) == about.st_size)
        j = json_loadb(text, (size_t)about.st_size, 0, NULL);
    free(text);
    return j;
}

void pst_solved_file_close(pst_solved_file *h) {
    for (uint32_t i = 0; i < h->n; i++) pst_schedule_close(h->schedule[i]);
    free(h->schedule);
    *h = (pst_solved_file){0};
}

pst_status pst_solved_file_open(pst_solved_file *h) {
    json_t *j = read_file(), *schedules = json_object_get(j, "schedules");
    const char *solved = json_string_value(json_object_get(j, "solved"));
    size_t n = json_array_size(schedules);
    *h = (pst_solved_file){.chunks = (uint32_t)json_integer_value(json_object_get(j, "chunks"))};
    pst_status status = PST_OK;
    if (n && solved && !(h->schedule = calloc(n, sizeof *h->schedule)))
        status = pst_fail(PST_ENOMEM, "no memory for %zu schedules", n);
    if (h->schedule) snprintf(h->solved, sizeof h->solved, "%s", solved);
    for (; h->schedule && h->n < n && status == PST_OK; h->n += status == PST_OK) {
        const json_t *csv = json_array_get(schedules, h->n);
        status = pst_schedule_csv_parse(json_string_value(csv), json_string_length(csv),
                                        "schedule solved by the launcher", &h->schedule[h->n]);
    }
    json_decref(j);
    unsetenv(VARIABLE);
    if (status != PST_OK) pst_solved_file_close(h);
    return status;
}
