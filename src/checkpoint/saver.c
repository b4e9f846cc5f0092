/* See saver.h. One lock for the threads' work; the shards have their own. */
#include "checkpoint/saver.h"
#include "base/clock.h"
#include "base/limit.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_saver *saver;
    void *buffer;
    pthread_t handle;
} worker;

struct pst_saver {
    pst_shard *const *shard;  /* borrowed */
    const pst_shard *largest; /* of the shard with the largest pieces, so that every buffer fits all
                               */
    uint32_t n, n_started;
    worker worker[PST_SAVER_THREADS]; /* the last one leads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* number of jobs so far; number of jobs that wrote something */
    uint64_t asked, writing;
    int writers_busy, busy, ending;
    pst_saver_task before, after;
    void *arg;
    int has_shards;
    uint64_t began_ns, ns;
    pst_status status;
    char message[1024];
};

/* --- the threads ------------------------------------------------------------------------------ */

static void *write_shards(void *arg) {
    worker *w = arg;
    pst_saver *s = w->saver;
    uint64_t seen = 0;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->ending && s->writing == seen) pthread_cond_wait(&s->changed, &s->lock);
        if (s->writing == seen) break;
        seen = s->writing;
        pthread_mutex_unlock(&s->lock);
        for (uint32_t i = 0; i < s->n; i++)
            while (pst_shard_write(s->shard[i], w->buffer)) {}
        pthread_mutex_lock(&s->lock);
        s->writers_busy--;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void fail_shards(pst_saver *s, pst_status status) {
    for (uint32_t i = 0; i < s->n; i++) pst_shard_fail(s->shard[i], status);
}

/* The leader's part of a job: starts the writers and verifies after them. */
static pst_status write_and_verify(pst_saver *s, void *buffer) {
    pst_status status = s->before ? s->before(s->arg) : PST_OK;
    if (status != PST_OK) fail_shards(s, status);
    pthread_mutex_lock(&s->lock);
    s->writing++;
    s->writers_busy = PST_SAVER_WRITERS;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n; i++)
        while (pst_shard_verify(s->shard[i], buffer)) {}
    pthread_mutex_lock(&s->lock);
    while (s->writers_busy) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    char said[1024] = "";
    for (uint32_t i = 0; i < s->n; i++) {
        pst_status one = pst_shard_end(s->shard[i]);
        if (one != PST_OK && status == PST_OK) status = one;
        if (one != PST_OK && !*said) snprintf(said, sizeof said, "%s", pst_error());
    }
    if (status != PST_OK && *said) pst_fail(status, "%s", said);
    s->ns = pst_monotonic_ns() - s->began_ns;
    return status;
}

static pst_status do_job(pst_saver *s, void *buffer) {
    pst_status status = s->has_shards ? write_and_verify(s, buffer) : PST_OK;
    return status == PST_OK && s->after ? s->after(s->arg) : status;
}

static void *lead(void *arg) {
    worker *w = arg;
    pst_saver *s = w->saver;
    uint64_t seen = 0;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->ending && s->asked == seen) pthread_cond_wait(&s->changed, &s->lock);
        if (s->asked == seen) break;
        seen = s->asked;
        pthread_mutex_unlock(&s->lock);
        pst_error_clear();
        pst_status status = do_job(s, w->buffer);
        pthread_mutex_lock(&s->lock);
        s->status = status;
        s->busy = 0;
        snprintf(s->message, sizeof s->message, "%s", pst_error());
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static pst_status start(pst_saver *s) {
    s->largest = s->shard[0];
    for (uint32_t i = 1; i < s->n; i++)
        if (pst_shard_piece(s->shard[i]) > pst_shard_piece(s->largest)) s->largest = s->shard[i];
    sigset_t all, before;
    sigfillset(&all);
    for (; s->n_started < PST_SAVER_THREADS; s->n_started++) {
        worker *w = &s->worker[s->n_started];
        w->saver = s;
        if (!(w->buffer = pst_shard_buffer(s->largest)))
            return pst_fail(PST_ENOMEM, "no memory for the buffers of checkpoints");
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are handled by the main thread */
        int error = pthread_create(&w->handle, NULL,
                                   s->n_started < PST_SAVER_WRITERS ? write_shards : lead, w);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        char limits[PST_LIMIT_TEXT];
        if (error)
            return pst_fail(PST_ENOMEM, "cannot start a thread to write checkpoints: %s%s",
                            strerror(error), pst_limit_of_threads(limits));
        pthread_setname_np(w->handle, "pst-save");
    }
    return PST_OK;
}

pst_status pst_saver_open(pst_shard *const *shard, uint32_t n, pst_saver **saver) {
    pst_saver *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory to write checkpoints");
    s->shard = shard;
    s->n = n;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pst_status status = start(s);
    if (status != PST_OK) pst_saver_close(s);
    else *saver = s;
    return status;
}

void pst_saver_close(pst_saver *s) {
    if (!s) return;
    char said[1024];
    snprintf(said, sizeof said, "%s", pst_error());
    if (pst_saver_busy(s)) fail_shards(s, pst_fail(PST_EPEER, "the run has ended"));
    pst_fail(PST_OK, "%s", said);
    pthread_mutex_lock(&s->lock);
    while (s->busy) pthread_cond_wait(&s->changed, &s->lock);
    s->ending = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n_started; i++) pthread_join(s->worker[i].handle, NULL);
    for (uint32_t i = 0; i < PST_SAVER_THREADS; i++)
        pst_shard_buffer_free(s->largest, s->worker[i].buffer);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void ask(pst_saver *s, int has_shards, pst_saver_task before, pst_saver_task after,
                void *arg) {
    pthread_mutex_lock(&s->lock);
    s->has_shards = has_shards;
    s->before = before;
    s->after = after;
    s->arg = arg;
    s->began_ns = has_shards ? pst_monotonic_ns() : s->began_ns;
    s->busy = 1;
    s->asked++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void pst_saver_write(pst_saver *s, pst_saver_task before, pst_saver_task after, void *arg) {
    ask(s, 1, before, after, arg);
}

void pst_saver_run(pst_saver *s, pst_saver_task task, void *arg) { ask(s, 0, NULL, task, arg); }

int pst_saver_busy(pst_saver *s) {
    pthread_mutex_lock(&s->lock);
    int busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

pst_status pst_saver_wait(pst_saver *s) {
    pthread_mutex_lock(&s->lock);
    while (s->busy) pthread_cond_wait(&s->changed, &s->lock);
    pst_status status = s->status;
    if (status != PST_OK) pst_fail(status, "%s", s->message);
    pthread_mutex_unlock(&s->lock);
    return status;
}

uint64_t pst_saver_ns(const pst_saver *s) { return s->ns; }
