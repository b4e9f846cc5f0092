/* Jobs for the threads of the device of far_module.c. */
#include "far/far_parts.h"
#include <stdlib.h>

job *far_job(pst_status (*run)(far *, job *)) {
    job *j = calloc(1, sizeof *j);
    if (!j) abort();
    j->run = run;
    j->event = UINT64_MAX;
    return j;
}

void far_put(far *d, pst_queue where, job *j) {
    if (where == PST_Q_COMPUTE && d->capturing) {
        *d->last_noted = j;
        d->last_noted = &j->next;
        return;
    }
    pthread_mutex_lock(&d->lock);
    queue *q = &d->queue[where];
    *q->last = j;
    q->last = &j->next;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&d->lock);
}
