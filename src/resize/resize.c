/* Changes the ranks of an elastic run that is running: `penstock resize`, `penstock drain`. */
#include "backends/machine.h"
#include "base/plural.h"
#include "base/sized.h"
#include "comm/launch/request.h"
#include "comm/world/elastic.h"
#include "penstock/run.h"
#include "run/elastic.h"
#include "run/resume.h"
#include "run/setup.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 1024, TRIES = 30 };

/* What the launcher says of its run (comm/launch/request.h). */
typedef struct {
    const char *folder;
    int fd;
    unsigned ranks, living, min, max, known;
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1];
} run_state;

/* --- the run ---------------------------------------------------------------------------------- */

/* Whether a run has this folder now. */
static int is_running(const char *folder) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int runs = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return runs;
}

/* No elastic run has this folder. */
static pst_status not_elastic(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    if (access(path, F_OK) != 0)
        return pst_fail(PST_EINPUT, "%.200s: no run.yaml there; expected the folder of a run",
                        folder);
    if (is_running(folder))
        return pst_fail(PST_EINPUT,
                        "%.200s: the run is not elastic, or has several hosts, so its ranks cannot "
                        "change now; stop it, and start it with: penstock train --resume %.200s "
                        "-n N --elastic",
                        folder, folder);
    return pst_fail(PST_EINPUT,
                    "%.200s: the run is not running on this host; continue it with: penstock train "
                    "--resume %.200s -n N --elastic",
                    folder, folder);
}

static pst_status read_state(run_state *s) {
    char line[LINE], *at = line;
    int used = 0;
    PST_TRY(pst_request_ask(s->fd, "state\n", line, sizeof line));
    if (sscanf(line, "state %u %u %u %u %u%n", &s->ranks, &s->living, &s->min, &s->max, &s->known,
               &used) != 5 ||
        s->known > PST_ELASTIC_RANKS || s->max > PST_ELASTIC_RANKS)
        return pst_fail(PST_EINPUT, "%.200s: the run is of another version of penstock than %s",
                        s->folder, pst_version());
    at += used;
    for (uint32_t i = 0; i <= s->known; i++) s->ranks_of[i] = (uint32_t)strtoul(at, &at, 10);
    return PST_OK;
}

static pst_status find_run(const char *folder, run_state *s) {
    *s = (run_state){.folder = folder};
    PST_TRY(pst_request_open(folder, &s->fd));
    for (int k = 0; k < TRIES && s->fd < 0 && is_running(folder); k++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* it may be starting */
        PST_TRY(pst_request_open(folder, &s->fd));
    }
    if (s->fd < 0) return not_elastic(folder);
    pst_status status = read_state(s);
    if (status != PST_OK) close(s->fd);
    return status;
}

/* --- layouts ---------------------------------------------------------------------------------- */

static pst_status load(const run_state *s, pst_config **c) {
    char path[4096];
    snprintf(path, sizeof path, "%s/run.yaml", s->folder);
    PST_TRY(pst_config_load(path, NULL, 0, c));
    pst_status status = pst_resume_find_tokenizer(*c, s->folder);
    if (status == PST_OK) status = pst_prepare_set_labels(*c);
    if (status == PST_OK && (*c)->parallel.pipeline)
        status = pst_config_override(*c, "parallel", "pipeline", "0");
    if (status != PST_OK) pst_config_close(*c);
    return status;
}

/* The memory that the run has now is free before the other ranks take theirs. */
static pst_status set_memory(pst_config *c, uint32_t before, uint32_t after) {
    const pst_prepare_options options = {.n_rank = before, .smaller = 1, .twins = 1};
    uint64_t bytes = pst_machine_memory();
    pst_prepared *p;
    char text[32];
    if (c->parallel.memory > 0 || !bytes) return PST_OK;
    PST_TRY(pst_config_override(c, "parallel", "memory", "1e18"));
    PST_TRY(pst_setup_plan(c, options, NULL, &p));
    for (uint32_t r = 0; r < before; r++) bytes += p->memory[r]->total;
    pst_prepared_close(p);
    snprintf(text, sizeof text, "%" PRIu64, bytes / after);
    return pst_config_override(c, "parallel", "memory", text);
}

static pst_status refuse_layout(const run_state *s, uint32_t ranks, pst_status status) {
    char why[1024];
    uint32_t most = ranks;
    snprintf(why, sizeof why, "%s", pst_error());
    while (most && s->ranks_of[most] != most) most--;
    if (!most) return pst_fail(status, "-n %u: not possible: %s", ranks, why);
    return pst_fail(status, "-n %u: not possible: %s; possible: -n %u", ranks, why, most);
}

/* Fills in the table from `from` to `ranks`, which must be possible. */
static pst_status try_layouts(run_state *s, uint32_t from, uint32_t ranks) {
    pst_config *c;
    PST_TRY(load(s, &c));
    pst_status status = set_memory(c, s->ranks, ranks);
    if (status == PST_OK) {
        status = pst_elastic_find_ranks(c, from, ranks, 0, s->ranks_of);
        if (status != PST_OK) status = refuse_layout(s, ranks, status);
    }
    pst_config_close(c);
    return status;
}

/* --- the commands ----------------------------------------------------------------------------- */

static pst_status report(const char *answer, FILE *out) {
    unsigned from, ranks;
    uint64_t step;
    double seconds, predicted;
    if (sscanf(answer, "changed %u %u %" SCNu64 " %lf %lf", &from, &ranks, &step, &seconds,
               &predicted) != 5)
        return pst_fail(PST_EINPUT, "nothing was changed: %s",
                        strncmp(answer, "refused ", 8) ? answer : answer + 8);
    fprintf(out, "%u -> %u rank%s at step %" PRIu64 "; the change took %.2f s (predicted %.2f)\n",
            from, ranks, pst_plural(ranks), step, seconds, predicted);
    return PST_OK;
}

static pst_status check_number(const run_state *s, int64_t ranks) {
    if (ranks >= s->min && ranks <= s->max) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "-n %" PRId64 ": expected %u (elastic.min) to %u (elastic.max) ranks", ranks,
                    s->min, s->max);
}

static pst_status ask_resize(run_state *s, uint32_t ranks, FILE *out) {
    char line[LINE], answer[LINE];
    if (ranks == s->ranks) {
        fprintf(out, "the run has %u rank%s already\n", ranks, pst_plural(ranks));
        return PST_OK;
    }
    const uint32_t from = ranks > s->known ? s->known + 1 : ranks;
    if (s->ranks_of[ranks] != ranks) PST_TRY(try_layouts(s, from, ranks));
    int used = snprintf(line, sizeof line, "resize %u %u", ranks, from);
    for (uint32_t i = from; i <= ranks; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %u", s->ranks_of[i]);
    strcpy(line + used, "\n");
    PST_TRY(pst_request_ask(s->fd, line, answer, sizeof answer));
    return report(answer, out);
}

static pst_status ask_drain(run_state *s, const char *who, FILE *out) {
    char line[LINE], answer[LINE], *end;
    const unsigned long rank = strtoul(who, &end, 10);
    if (!*who || *end || *who == '-' || rank >= s->ranks)
        return pst_fail(PST_EINPUT,
                        "%.60s: expected a rank, 0 to %u; a host of a run on several hosts leaves "
                        "when its launcher gets SIGTERM",
                        who, s->ranks - 1);
    snprintf(line, sizeof line, "drain %lu\n", rank);
    PST_TRY(pst_request_ask(s->fd, line, answer, sizeof answer));
    return report(answer, out);
}

pst_status pst_resize(const pst_resize_options *options, FILE *out) {
    pst_resize_options o;
    run_state s;
    PST_TRY(pst_sized_take("pst_resize", options, &o, sizeof o));
    PST_TRY(find_run(o.run, &s));
    pst_status status = o.drain ? PST_OK : check_number(&s, o.ranks);
    if (status == PST_OK)
        status = o.drain ? ask_drain(&s, o.drain, out) : ask_resize(&s, (uint32_t)o.ranks, out);
    close(s.fd);
    return status;
}
