/* Reads a run's folder, file by file. */
#include "report/data.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_BYTES = 1200, MAX_TEXT = 256 << 10 };

static FILE *open_in(const char *run, const char *name) {
    char path[PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", run, name) < (int)sizeof path ? fopen(path, "re")
                                                                              : NULL;
}

/* A whole file, cut at MAX_TEXT, malloc'd; NULL if it is missing. */
static char *text_of(const char *run, const char *name) {
    FILE *f = open_in(run, name);
    char *text = f ? malloc(MAX_TEXT + 1) : NULL;
    if (text) text[fread(text, 1, MAX_TEXT, f)] = 0;
    if (f) fclose(f);
    return text;
}

/* The last part of the folder's path, with links and dots resolved. */
static void name_of(const char *run, char *name, size_t bytes) {
    char whole[PATH_MAX];
    const char *path = realpath(run, whole) ? whole : run, *slash = strrchr(path, '/');
    snprintf(name, bytes, "%.250s", slash && slash[1] ? slash + 1 : path);
}

/* A process that trains in a folder holds its lock. */
static int is_locked(const char *run) {
    int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

static pst_status read_metrics(const char *run, pst_report_data *d) {
    FILE *metrics = open_in(run, "metrics.jsonl");
    *d = (pst_report_data){0};
    if (!metrics)
        return pst_fail(errno == ENOMEM ? PST_ENOMEM : PST_EINPUT,
                        "%s/metrics.jsonl: %s; expected the folder of a run, such as runs/NAME",
                        run, strerror(errno));
    pst_status status = pst_report_read_metrics(metrics, &d->metrics);
    fclose(metrics);
    return status;
}

static void read_config(const char *run, pst_report_data *d) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/run.yaml", run);
    if (pst_config_load(path, NULL, 0, &d->config) != PST_OK) d->config = NULL;
    name_of(run, d->name, sizeof d->name);
    d->running = !d->metrics.end && is_locked(run);
}

void pst_report_read_plan(const char *run, pst_report_data *d) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/plan.yaml", run);
    if (pst_plan_load(path, &d->plan) != PST_OK) d->plan = NULL;
}

pst_status pst_report_read_numbers(const char *run, pst_report_data *d) {
    pst_status status = read_metrics(run, d);
    if (status == PST_OK) read_config(run, d);
    else pst_report_release(d);
    return status;
}

pst_status pst_report_read(const char *run, pst_report_data *d) {
    pst_status status = read_metrics(run, d);
    FILE *trace = status == PST_OK ? open_in(run, "trace.json") : NULL;
    if (trace) status = pst_report_read_trace(trace, &d->trace);
    if (trace) fclose(trace);
    if (status != PST_OK) {
        pst_report_release(d);
        return status;
    }
    pst_report_read_plan(run, d);
    read_config(run, d);
    d->plan_text = text_of(run, "plan.yaml");
    d->run_text = text_of(run, "run.yaml");
    return PST_OK;
}

void pst_report_release(pst_report_data *d) {
    pst_report_release_metrics(&d->metrics);
    pst_report_release_trace(&d->trace);
    pst_plan_close(d->plan);
    pst_config_close(d->config);
    free(d->plan_text);
    free(d->run_text);
    *d = (pst_report_data){0};
}

int pst_report_is_timed(const pst_report_data *d) {
    return d->config && !strcmp(d->config->parallel.device, "timed");
}
