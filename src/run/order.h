/* order.txt: the order in which all servers of a run with asynchronous updates have applied the
 * gradients of workers (parallel.update: async, bounded), and reading it for --replay. The format
 * is in docs/formats.md. */
#ifndef PST_RUN_ORDER_H
#define PST_RUN_ORDER_H
#include "prepare/prepare.h"
#include <stdio.h>

/* Steps [from, to) of every worker, which begin and end with equal weights everywhere. order:
 * [workers x (to - from)] the worker of each update. */
typedef struct {
    uint64_t from, to;
    uint16_t *order;
} pst_order_period;

typedef struct {
    uint32_t workers;
    pst_order_period *period; /* [n] */
    uint32_t n;
    size_t room;
} pst_order;

void pst_order_close(pst_order *o);
/* Reads a file for a run that begins at step `from`. EINPUT, with file, line and what differs: it
 * is damaged or cut off, it is of another run, or no period begins there or ends with train.steps.
 * It may end before, like the run that wrote it; ENOMEM. */
pst_status pst_order_read(const char *path, const pst_prepared *p, uint64_t from, pst_order *o);
/* The last step of the order. */
uint64_t pst_order_end(const pst_order *o);
/* The period that begins at a step, NULL: none does. */
const pst_order_period *pst_order_at(const pst_order *o, uint64_t step);
/* Opens order.txt in a run's folder to append periods from step `from` on. Those of an existing
 * file stay up to there; if that is of another layout or does not end there, it is renamed, which a
 * warning says. ENOMEM: it cannot be written. */
pst_status pst_order_append(const char *path, const pst_prepared *p, uint64_t from, FILE **f);
/* Writes a period. ENOMEM. */
pst_status pst_order_write(FILE *f, const pst_prepared *p, const pst_order_period *period);
#endif
