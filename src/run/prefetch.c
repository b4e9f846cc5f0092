/* See prefetch.h. One batch is enough: a read that takes longer than a step cannot be hidden. The
 * lock guards `asked`, `done` and `ending`; batch and samples belong to the thread while asked and
 * done differ, and to the caller otherwise. */
#include "run/prefetch.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pst_prefetch {
    pst_data *data;
    uint32_t n_field;
    uint64_t from[PST_DATA_FIELDS + 1]; /* where the fields of a sample begin; its size */
    int32_t *sample;                    /* [most][from[n_field]] */
    pst_prefetch_batch batch;           /* that was started last; first UINT64_MAX: none */
    pst_status status;
    char message[1024];
    uint64_t asked, done; /* batches so far */
    int ending, running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* --- the thread ------------------------------------------------------------------------------- */

static pst_status read_batch(pst_prefetch *p) {
    for (uint64_t i = 0; i < p->batch.n; i++) {
        int32_t *out[PST_DATA_FIELDS];
        pst_prefetch_sample(p, i, out);
        PST_TRY(p->data->row->sample(p->data, PST_SPLIT_TRAIN, p->batch.first + i, out));
    }
    return PST_OK;
}

static void *read_batches(void *arg) {
    pst_prefetch *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ending && p->asked == p->done) pthread_cond_wait(&p->changed, &p->lock);
        if (p->ending) break;
        pthread_mutex_unlock(&p->lock);
        pst_error_clear();
        p->status = read_batch(p);
        snprintf(p->message, sizeof p->message, "%s", pst_error());
        pthread_mutex_lock(&p->lock);
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are for the thread that trains. */
static pst_status start_thread(pst_prefetch *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&p->thread, NULL, read_batches, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->running = !error;
    return error ? pst_fail(PST_ENOMEM, "cannot start a thread to read data: %s", strerror(error))
                 : PST_OK;
}

/* --- the caller ------------------------------------------------------------------------------- */

static pst_status reserve(pst_prefetch *p, uint64_t most) {
    pst_data_field field[PST_DATA_FIELDS];
    p->n_field = p->data->row->fields(p->data, field);
    for (uint32_t j = 0; j < p->n_field; j++) p->from[j + 1] = p->from[j] + field[j].elements;
    p->sample = calloc(most * p->from[p->n_field] + 1, sizeof *p->sample);
    return p->sample ? PST_OK : pst_no_memory("for the samples of a batch");
}

pst_status pst_prefetch_open(pst_data *data, uint64_t most, pst_prefetch **out) {
    pst_prefetch *p = calloc(1, sizeof *p);
    if (!p) return pst_no_memory("for the samples of a batch");
    p->data = data;
    p->batch.first = UINT64_MAX;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pst_status status = reserve(p, most);
    if (status == PST_OK && most) status = start_thread(p);
    if (status == PST_OK) *out = p;
    else pst_prefetch_close(p);
    return status;
}

void pst_prefetch_close(pst_prefetch *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = 1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->running) pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p->sample);
    free(p);
}

void pst_prefetch_settle(pst_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    while (p->asked != p->done) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pst_prefetch_start(pst_prefetch *p, pst_prefetch_batch batch) {
    pst_prefetch_settle(p);
    p->batch = batch;
    if (!batch.n) return;
    pthread_mutex_lock(&p->lock);
    p->asked++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

pst_status pst_prefetch_take(pst_prefetch *p, pst_prefetch_batch batch) {
    if (p->batch.first != batch.first || p->batch.n != batch.n) pst_prefetch_start(p, batch);
    pst_prefetch_settle(p);
    return p->status == PST_OK ? PST_OK : pst_fail(p->status, "%s", p->message);
}

void pst_prefetch_sample(const pst_prefetch *p, uint64_t i, int32_t *out[PST_DATA_FIELDS]) {
    int32_t *sample = p->sample + i * p->from[p->n_field];
    for (uint32_t j = 0; j < p->n_field; j++) out[j] = sample + p->from[j];
}
