/* See limit.h. */
#include "base/limit.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PROBES = 1024, PROBE_STACK = 128 << 10, JOIN_MS = 100 };

/* --- needs ------------------------------------------------------------------------------------ */

/* Open files: at most 30 were counted in a rank of several, 10 in one process alone. */
enum { FILES = 16, RANK_FILES = 40 };
/* Threads besides the computing one: those that write checkpoints; in a rank of several also those
 * of UCX and PMIx, and the heartbeat. */
enum { TASKS = 3, RANK_TASKS = 6 };
/* MiB besides arena and stacks: heaps, shared memory, libraries that are loaded later. */
static const uint64_t MIB = 1 << 20, EXTRA = 40, RANK_EXTRA = 160, PRIVATE_EXTRA = 24;
static const uint64_t SEGMENT = 8; /* MiB; UCX's receive buffers are one file */

static uint64_t stack_bytes(void) {
    pthread_attr_t attr;
    size_t bytes = 0;
    if (pthread_getattr_default_np(&attr)) return 0;
    pthread_attr_getstacksize(&attr, &bytes);
    pthread_attr_destroy(&attr);
    return bytes;
}

pst_limit_needs pst_limit_of_rank(uint32_t ranks, uint32_t threads, uint64_t arena_bytes) {
    pst_limit_needs out = {.files = ranks > 1 ? RANK_FILES : FILES};
    out.tasks = ranks > 1 ? RANK_TASKS : TASKS;
    if (threads > 1) out.tasks += threads - 1;
    out.data = arena_bytes + out.tasks * stack_bytes() + PRIVATE_EXTRA * MIB;
    out.address = arena_bytes + out.tasks * stack_bytes() + (ranks > 1 ? RANK_EXTRA : EXTRA) * MIB;
    out.file = ranks > 1 ? SEGMENT * MIB : 0;
    return out;
}

/* --- reading ---------------------------------------------------------------------------------- */

static rlim_t now(int resource) {
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) ? RLIM_INFINITY : limit.rlim_cur;
}

static void append(char text[PST_LIMIT_TEXT], const char *option, int resource, uint64_t unit,
                   const char *of) {
    rlim_t limit = now(resource);
    size_t used = strlen(text);
    if (limit == RLIM_INFINITY) return;
    if (used) used--; /* the closing bracket */
    snprintf(text + used, PST_LIMIT_TEXT - used, "%sulimit %s is %" PRIu64 "%s)",
             used ? ", " : " (", option, (uint64_t)limit / unit, of);
}

const char *pst_limit_of_memory(char text[PST_LIMIT_TEXT]) {
    text[0] = 0;
    append(text, "-v", RLIMIT_AS, 1024, " KiB");
    append(text, "-d", RLIMIT_DATA, 1024, " KiB");
    return text;
}

const char *pst_limit_of_threads(char text[PST_LIMIT_TEXT]) {
    pst_limit_of_memory(text);
    append(text, "-u", RLIMIT_NPROC, 1, "");
    return text;
}

/* --- open files ------------------------------------------------------------------------------- */

static pst_status check_files(uint64_t needed) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed) return PST_OK;
    uint64_t was = limit.rlim_cur;
    limit.rlim_cur = needed;
    if (limit.rlim_max >= needed && !setrlimit(RLIMIT_NOFILE, &limit)) return PST_OK;
    return pst_fail(PST_ENOMEM,
                    "open files: the limit (ulimit -n) is %" PRIu64
                    ", this run needs about %" PRIu64 "; raise it: ulimit -n %" PRIu64
                    ", or nofile in /etc/security/limits.conf",
                    was, needed, needed);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Field `at` of /proc/self/statm, in bytes; 0: unknown, or the resource has no limit. */
static uint64_t mapped(int resource, int at) {
    uint64_t pages = 0;
    if (now(resource) == RLIM_INFINITY) return 0;
    FILE *f = fopen("/proc/self/statm", "r");
    for (int i = 0; f && i <= at; i++)
        if (fscanf(f, "%" SCNu64, &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static pst_status check_bytes(int resource, uint64_t needed, const char *what, const char *option,
                              const char *item) {
    rlim_t limit = now(resource);
    if (limit == RLIM_INFINITY || limit >= needed) return PST_OK;
    return pst_fail(PST_ENOMEM,
                    "%s: the limit (ulimit %s) is %" PRIu64 " KiB, this run needs about %" PRIu64
                    " KiB; raise it: ulimit %s unlimited, or %s in /etc/security/limits.conf",
                    what, option, (uint64_t)limit / 1024, needed / 1024 + 1, option, item);
}

/* --- processes and threads -------------------------------------------------------------------- */

/* A thread is still counted for a moment after pthread_join. */
static void await_threads(nlink_t before) {
    struct stat st;
    for (int i = 0; i < JOIN_MS && !stat("/proc/self/task", &st) && st.st_nlink > before; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Keeps the threads alive until all are started, because the limit is on those that run at once. */
static void *wait_at_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

uint32_t pst_limit_tasks(uint32_t n) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attr;
    struct stat before = {0};
    uint32_t started = 0;
    int known = !stat("/proc/self/task", &before);
    if (n > MAX_PROBES) n = MAX_PROBES;
    pthread_t *thread = calloc(n + (size_t)1, sizeof *thread);
    if (!thread || pthread_attr_init(&attr)) {
        free(thread);
        return 0;
    }
    pthread_attr_setstacksize(&attr, PROBE_STACK);
    pthread_mutex_lock(&gate);
    while (started < n && !pthread_create(thread + started, &attr, wait_at_gate, &gate)) started++;
    pthread_mutex_unlock(&gate);
    for (uint32_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
    if (known) await_threads(before.st_nlink);
    pthread_attr_destroy(&attr);
    free(thread);
    return started;
}

static pst_status check_tasks(uint64_t needed) {
    uint32_t n = needed < MAX_PROBES ? (uint32_t)needed : MAX_PROBES, got = pst_limit_tasks(n);
    rlim_t limit = now(RLIMIT_NPROC);
    char is[40] = "without limit", raise[80] = "";
    if (got == n) return PST_OK;
    if (limit != RLIM_INFINITY) { /* the limit is on all processes of the user */
        snprintf(is, sizeof is, "%" PRIu64 " for this user", (uint64_t)limit);
        snprintf(raise, sizeof raise,
                 "ulimit -u %" PRIu64 ", nproc in /etc/security/limits.conf, or ",
                 (uint64_t)limit + needed - got);
    }
    return pst_fail(PST_ENOMEM,
                    "processes and threads: only %u more can be started (ulimit -u is %s), this "
                    "run needs about "
                    "%" PRIu64 "; raise it: %spids.max of a container",
                    got, is, needed, raise);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Address space first, because threads need it too. */
pst_status pst_limit_check(const pst_limit_needs *needs) {
    if (needs->address)
        PST_TRY(check_bytes(RLIMIT_AS, mapped(RLIMIT_AS, 0) + needs->address, "address space", "-v",
                            "as"));
    if (needs->data)
        PST_TRY(check_bytes(RLIMIT_DATA, mapped(RLIMIT_DATA, 5) + needs->data, "private memory",
                            "-d", "data"));
    if (needs->file) PST_TRY(check_bytes(RLIMIT_FSIZE, needs->file, "file size", "-f", "fsize"));
    if (needs->files) PST_TRY(check_files(needs->files));
    return needs->tasks ? check_tasks(needs->tasks) : PST_OK;
}
