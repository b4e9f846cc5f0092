/* A server with asynchronous updates: it takes the gradients of workers in the order in which they
 * are announced (pipeline/compile/flush.h). A period is a number of steps that each worker takes
 * without the others; it begins and ends with equal weights everywhere. The server's list, which
 * has a part for each worker, runs once for each step of the period: it takes gradients as many
 * times as there are workers, whichever these are. The first server decides, and numbers the norms
 * that it sends on; the others follow these numbers. Behind the gradients of a worker follow the
 * weights for its next step, with the list's SENDs in the head; with a bound on how far a worker
 * may be ahead of the slowest, only once the slowest is near enough. The first weights of a period
 * are sent at its start, the others until its last step. */
#ifndef PST_PIPELINE_EXECUTE_SERVE_H
#define PST_PIPELINE_EXECUTE_SERVE_H
#include "pipeline/execute/executor.h"

enum { PST_SERVING_WORKERS = 65535 }; /* at most */

typedef struct {
    uint32_t workers;
    uint64_t ahead; /* steps by which a worker may be ahead of the slowest; UINT64_MAX: any */
    /* The current period: its steps; of each worker ([workers]) how many gradients have been
     * applied, and for how many steps weights have been sent */
    uint64_t steps, *taken, *replied;
    /* [workers x steps] the worker of each gradient in the order in which the server takes them;
     * the first n_order are taken. forced 1: given for the whole period before it begins */
    uint16_t *order;
    uint64_t n_order;
    int forced;
    /* number of gradients that the current list still takes; whose are being taken, PST_NONE */
    uint64_t left;
    uint32_t taking;
    int leads;               /* 1: this is the first server */
    uint32_t seq, stride;    /* first sequence number of the period, and of each of its lists */
    uint64_t *request;       /* [workers] of the RECV of a norm */
    uint8_t *posted, *there; /* [workers] 1: that is posted; it has arrived */
    uint8_t *replies;        /* [workers] 1: the weights are being sent */
} pst_serving;

/* The caller frees *s with pst_serving_close. ENOMEM. */
pst_status pst_serving_open(uint32_t workers, uint64_t ahead, pst_serving **s);
void pst_serving_close(pst_serving *s);
/* Begins a period. order: [workers x steps] in which the servers have to take gradients (copied);
 * NULL: in that of their arrival at the first one. ENOMEM. */
pst_status pst_serving_begin(pst_serving *s, uint64_t steps, const uint16_t *order);
/* Returns 1 if a worker that has taken `taken` steps may begin another one: none of the [workers]
 * numbers of steps in `all` is so small that it would be too far ahead. */
int pst_serving_allows(uint64_t ahead, const uint64_t *all, uint32_t workers, uint64_t taken);

/* Starts the list of this rank, a server. s is borrowed until the list has ended. Spans are those
 * of the last time that an instruction ran. */
pst_status pst_executor_start_served(pst_executor *x, const pst_job *job, const pst_cut *cut,
                                     pst_serving *s);
/* For pst_executor_progress, between two parts: begins the next one, or ends the list (OK). BUSY:
 * nothing has arrived, or a part has begun (x->n_left). */
pst_status pst_executor_serve(pst_executor *x, uint32_t *moved);
/* The RECV of a norm that is awaited, PST_NONE: none. */
uint32_t pst_serving_awaits(const pst_executor *x);
#endif
