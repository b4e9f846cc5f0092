/* See compare.h. The resolved run file is text with one line per key; all processes with the same
 * build print the same keys. */
#include "group/compare.h"
#include "base/hash.h"
#include "group/identity.h"
#include "group/placement.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the run file ----------------------------------------------------------------------------- */

/* Settings that may differ between machines. parallel.memory may not with schedule `solved`,
 * because the solution depends on it and all ranks must get the same. */
static int may_differ(const pst_config *config, const char *line) {
    static const char *const keys[] = {
        "data.paths: ",       "eval.sets: ",         "model.weights: ",
        "parallel.threads: ", "parallel.memory: ",   "parallel.schedule_file: ",
        "parallel.cluster: ", "parallel.measured: ", "parallel.wait: ",
        "log.level: "};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strncmp(line, keys[i], strlen(keys[i])))
            return strcmp(keys[i], "parallel.memory: ") ||
                   pst_schedule_kind_of(config->parallel.schedule) != PST_SCHEDULE_SOLVED;
    return 0;
}

/* Prints the resolved run file: a line "section.key: value" for each key that must agree. */
static pst_status print_run(const pst_config *config, char **text) {
    char *all = NULL, *rest;
    size_t bytes;
    FILE *out = open_memstream(&all, &bytes);
    if (out) pst_config_print_paths(config, out);
    out = out && !fclose(out) ? open_memstream(text, &bytes) : NULL;
    for (char *line = out ? strtok_r(all, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        if (!may_differ(config, line)) fprintf(out, "%s\n", line);
    free(all);
    if (out && !fclose(out)) return PST_OK;
    if (out) free(*text);
    *text = NULL;
    return pst_fail(PST_ENOMEM, "no memory to compare run files");
}

/* Finds the first line that differs; the lengths are without the newline. 0: no difference. */
static int first_difference(const char *a, const char *b, int *n_a, int *n_b, const char **at_a,
                            const char **at_b) {
    while (*a && *b) {
        *n_a = (int)strcspn(a, "\n");
        *n_b = (int)strcspn(b, "\n");
        if (*n_a != *n_b || memcmp(a, b, (size_t)*n_a)) {
            *at_a = a;
            *at_b = b;
            return 1;
        }
        a += *n_a + (a[*n_a] == '\n');
        b += *n_b + (b[*n_b] == '\n');
    }
    return 0;
}

/* --- which ranks differ ----------------------------------------------------------------------- */

enum { NAMED = 8 };

typedef struct {
    uint32_t n;
    char text[NAMED * 8];
    size_t used;
} ranks;

static void add_rank(ranks *l, uint32_t rank) {
    if (l->n++ >= NAMED) return;
    l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%u",
                                l->n > 1 ? ", " : "", rank);
}

/* "rank 2 runs", "ranks 2, 3 and 17 more run". */
static void print_ranks(const ranks *l, const char *one, const char *several, char *text,
                        size_t capacity) {
    if (l->n > NAMED)
        snprintf(text, capacity, "ranks %s and %u more %s", l->text, l->n - NAMED, several);
    else
        snprintf(text, capacity, "rank%s %s %s", l->n > 1 ? "s" : "", l->text,
                 l->n > 1 ? several : one);
}

/* --- program and run file --------------------------------------------------------------------- */

/* Lists the ranks that differ from rank 0 in the same way as this one. */
static pst_status name_ranks(pst_world *w, const pst_identity *root, int by_version, char *text,
                             size_t capacity) {
    ranks like = {0};
    for (uint32_t r = 1; r < w->size; r++) {
        pst_identity i;
        PST_TRY(pst_identity_get(w, r, &i));
        int other = strcmp(i.version, root->version) != 0;
        if (other != by_version || (!other && i.run == root->run)) continue;
        add_rank(&like, r);
    }
    print_ranks(&like, by_version ? "runs" : "has", by_version ? "run" : "have", text, capacity);
    return PST_OK;
}

static pst_status name_key(pst_world *w, const pst_identity *root, const char *mine) {
    void *theirs = NULL;
    size_t bytes;
    char who[240];
    const char *at = NULL, *there = NULL;
    int n = 0, n_there = 0;
    PST_TRY(name_ranks(w, root, 0, who, sizeof who));
    PST_TRY(w->ops->get(w, 0, "penstock.run", &theirs, &bytes));
    char *text = realloc(theirs, bytes + 1);
    if (!text) {
        free(theirs);
        return pst_fail(PST_ENOMEM, "no memory to compare run files");
    }
    text[bytes] = 0;
    pst_status status = PST_OK;
    if (!first_difference(mine, text, &n, &n_there, &at, &there))
        status = pst_fail(PST_EINPUT, "%s a different run file than rank 0", who);
    else
        status = pst_fail(PST_EINPUT,
                          "%s a different run file than rank 0: '%.*s' on rank %u, '%.*s' on rank "
                          "0; use the same run file and options on all ranks",
                          who, n, at, w->rank, n_there, there);
    free(text);
    return status;
}

static pst_status compare(pst_world *w, const pst_identity *mine, const char *run) {
    pst_identity root;
    char who[240];
    PST_TRY(pst_identity_get(w, 0, &root));
    if (strcmp(mine->version, root.version)) {
        PST_TRY(name_ranks(w, &root, 1, who, sizeof who));
        return pst_fail(PST_EINPUT,
                        "%s a different build of penstock than rank 0: %s on rank %u, %s on rank 0",
                        who, mine->version, w->rank, root.version);
    }
    return mine->run == root.run ? PST_OK : name_key(w, &root, run);
}

pst_status pst_compare_identity(const pst_config *config, uint64_t *hash) {
    const char *version = pst_identity_version();
    char *run = NULL;
    PST_TRY(print_run(config, &run));
    *hash = pst_hash64(run, strlen(run), pst_hash64(version, strlen(version), 0));
    free(run);
    return PST_OK;
}

pst_status pst_compare_ranks(pst_world *w, const pst_config *config) {
    pst_identity mine = {0};
    char *run = NULL;
    if (w->size == 1) return PST_OK;
    pst_status status = print_run(config, &run), common;
    snprintf(mine.version, sizeof mine.version, "%s", pst_identity_version());
    memcpy(mine.place.host, w->host, sizeof mine.place.host);
    if (sched_getaffinity(0, sizeof mine.place.mask, &mine.place.mask) != 0)
        CPU_ZERO(&mine.place.mask);
    if (run) mine.run = pst_hash64(run, strlen(run), 0);
    common = pst_identity_put(w, &mine);
    if (common == PST_OK && w->rank == 0)
        common = w->ops->put(w, "penstock.run", run ? run : "", run ? strlen(run) : 0);
    if (common == PST_OK) common = w->ops->fence(w);
    if (status == PST_OK) status = common;
    if (status == PST_OK) status = compare(w, &mine, run);
    free(run);
    return status == PST_OK ? pst_placement_count(w) : status;
}

/* --- data, plan and lists --------------------------------------------------------------------- */

static uint64_t hash_plan(const pst_plan *plan) {
    const pst_layout *l = &plan->layout;
    uint64_t hash = pst_hash64(l->first_item, (l->n_chunk + (size_t)1) * sizeof *l->first_item, 0);
    hash = pst_hash64(l->rank_of_chunk, l->n_chunk * sizeof *l->rank_of_chunk, hash);
    return pst_hash64(l->recompute, l->n_chunk * sizeof *l->recompute, hash);
}

static uint64_t hash_list(const pst_job *job, uint64_t hash) {
    /* without the durations, which are the last members */
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            hash = pst_hash64(&job->list[r].instr[i], offsetof(pst_instr, ns), hash);
    return hash;
}

static uint64_t hash_lists(const pst_prepared *p) {
    uint64_t hash = hash_list(p->job, 0);
    const pst_prepared *other;
    for (uint32_t i = 0; (other = pst_prepared_other(p, i)); i++)
        hash = hash_list(other->job, hash);
    return hash;
}

static ranks different(const uint64_t *all, uint32_t n) {
    ranks out = {0};
    for (uint32_t r = 1; r < n; r++)
        if (all[r] != all[0]) add_rank(&out, r);
    return out;
}

pst_status pst_compare_prepared(pst_group *g, const pst_prepared *p, pst_data *data,
                                const pst_evaluate_sets *sets) {
    static const char *const what[][3] = {
        {"has different data", "have different data", "the files of data.paths must be the same"},
        {"has a different plan", "have a different plan",
         "the files of parallel.cluster and parallel.measured must be the same"},
        {"has a different schedule", "have a different schedule",
         "the files of parallel.schedule_file, parallel.cluster and parallel.measured must be the "
         "same"},
        {"computes on a different device", "compute on a different device",
         "parallel.device must name the same device"},
        {"is evaluated on different data", "are evaluated on different data",
         "the files of eval.sets must be the same"}};
    const char *device = p->options.device ? p->options.device->name : "";
    if (g->hub) return PST_OK;
    const uint64_t own[] = {data->row->hash(data), hash_plan(p->plan), hash_lists(p),
                            pst_hash64(device, strlen(device), 0), pst_evaluate_hash(sets, 0)},
                   *all;
    PST_TRY(pst_group_numbers(g, pst_hash64(own, sizeof own, 0), &all));
    if (!different(all, g->n_rank).n) return PST_OK;
    pst_status status = PST_OK;
    for (int i = 0; i < (int)(sizeof what / sizeof *what) && status == PST_OK; i++) {
        char who[160];
        PST_TRY(pst_group_numbers(g, own[i], &all));
        ranks others = different(all, g->n_rank);
        print_ranks(&others, what[i][0], what[i][1], who, sizeof who);
        if (others.n)
            status = pst_fail(PST_EINPUT, "%s than rank 0: %s on all hosts", who, what[i][2]);
    }
    return pst_group_agree(g, status);
}
