/* Messages between the workers and the servers of a store. A worker numbers its requests to each
 * server from 0. A request is a message on channel REQUEST with this number as seq; its data has
 * the same seq: on channel UP from the worker (a pushed slice, the numbers of wanted rows), on
 * channel DOWN from the server (the slice or rows that were asked for). On channel NOTE a server
 * sends messages of one size to each worker, numbered from 0. */
#ifndef PST_KV_MESSAGE_H
#define PST_KV_MESSAGE_H
#include "base/codec.h"
#include "base/status.h"
#include <stdint.h>

enum { PST_KV_CHANNEL_REQUEST = 1, PST_KV_CHANNEL_UP, PST_KV_CHANNEL_DOWN, PST_KV_CHANNEL_NOTE };
enum { PST_KV_NAME = 64 }; /* bytes of the name of a key, with the zero at its end */

typedef enum {
    PST_KV_INIT,
    PST_KV_PUSH,
    PST_KV_PULL,
    PST_KV_ROWS,
    PST_KV_BARRIER,
    PST_KV_END
} pst_kv_op;

/* The optimizer of a push; no padding, because pushes of one step are compared. */
typedef struct {
    int32_t kind; /* pst_optim_kind; -1: none, the sum becomes the value */
    int32_t nesterov;
    float lr, decay, momentum, beta1, beta2, eps, rescale;
} pst_kv_rule;

/* A value is divided into slices of whole rows; a request is about one of them. */
typedef struct {
    char key[PST_KV_NAME];
    uint32_t op, slice;
    uint64_t rows, columns; /* of the value */
    uint64_t from, n;       /* the slice: elements [from, from + n) of the value */
    uint64_t version;       /* PULL, ROWS: how many pushes of this worker the answer contains */
    uint64_t n_row;         /* ROWS: number of wanted rows, 8 bytes each on channel UP */
    uint32_t has_data;      /* INIT: 1: the initial value follows on channel UP */
    uint32_t seq;
    pst_kv_rule rule; /* PUSH */
    pst_codec codec;  /* of the key: how its pushes are packed */
    uint32_t unused;
} pst_kv_request;

typedef enum { PST_KV_NOTE_BARRIER, PST_KV_NOTE_FAILED } pst_kv_note_kind;
typedef struct {
    uint32_t kind, status; /* FAILED: the pst_status of the server, and its message */
    char text[1016];
} pst_kv_note;
#endif
