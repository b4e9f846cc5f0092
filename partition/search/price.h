/* The price of memory in a lower bound on the step. A layout that fits leaves no stage with more
 * bytes than its devices have. So a bound stays one if, for any price of a byte on each stage, the
 * price of the bytes of every operator is added and the price of the stage's whole memory is
 * subtracted, and the cut and its recomputation are chosen so that the sum is least. */
#ifndef PST_PARTITION_SEARCH_PRICE_H
#define PST_PARTITION_SEARCH_PRICE_H
#include "partition/search/space.h"

/* Sums over operators [0, i), i up to n_item, of a model that recomputes with one mode. */
typedef struct {
    /* bytes per micro-batch in flight from F to the end of B, then to the end of W, and only from B
     * to the end of W */
    double *f_to_b, *to_w, *apart;
    const uint64_t *enter; /* bytes that a chunk which begins with operator i receives */
} pst_search_way_sums;

/* Sums of durations in ns over operators [0, i), on one kind of device; f_ns owns them all. */
typedef struct {
    double *f_ns, *b_ns, *w_ns, *again_ns[PST_RECOMPUTE_COUNT]; /* again_ns: by index of a mode */
} pst_search_price_times;

/* What a chunk adds to the bound: ns per ns of its F, B and W, per element of its parameters, and
 * per byte of its memory. */
typedef struct {
    double f, b, w, e, byte;
} pst_search_weight;

/* A fluid model on one stage: it recomputes nothing until its memory is full, then more and more of
 * it, in the modes that save most bytes per added time. */
typedef struct {
    uint32_t n;
    double most[PST_RECOMPUTE_COUNT];  /* share of the model that fits with each mode, ascending */
    double ns[PST_RECOMPUTE_COUNT];    /* time of that share */
    double price[PST_RECOMPUTE_COUNT]; /* ns per byte from this mode to the next */
} pst_search_fluid;

typedef struct {
    const pst_search_flight *flight;
    uint32_t n_item, n_mode; /* modes that are allowed, and NONE for the rest with LAYERS */
    pst_recompute mode[PST_RECOMPUTE_COUNT];
    int some_layers;                        /* 1: a chunk with LAYERS may keep its last layers */
    uint8_t may_begin[PST_RECOMPUTE_COUNT]; /* 1: a whole chunk may have this mode */
    pst_search_way_sums way[PST_RECOMPUTE_COUNT];
    uint32_t n_time;
    pst_search_price_times *time; /* [n_time] */
    uint32_t *time_of;            /* [n_chunk] index into `time`; 0 at first */
    double *elements;             /* [n_item + 1] sums over the operators before */
    double *own;          /* [n_item + 1] bytes that do not depend on the micro-batches in flight */
    double room;          /* bytes of a stage */
    uint64_t least_enter; /* smallest number of bytes that a chunk receives */
    int limited;          /* 0: there is no limit */
    double *stage;        /* [pipeline] price of a byte of the stage: ns per weight of the stage */
    double *extra;        /* [n_chunk] ns that all operators add to the chunk per weight */
    double *least, *least_before; /* [n_item + 1] of the chunks so far */
    pst_search_fluid *fluid;      /* [pipeline] */
} pst_search_price;

/* Opens the sums of a configuration without prices; speed: of its devices. *known 0: nothing can be
 * said about its memory. The caller closes it, also after a failure. ENOMEM. */
pst_status pst_search_price_open(pst_search_context *x, const pst_search_config *c,
                                 const pst_search_table *table, double speed,
                                 pst_search_price *price, int *known);
void pst_search_price_close(pst_search_price *price);
/* Adds the durations of another kind of device or speed, with index n_time - 1. ENOMEM. */
pst_status pst_search_price_add_times(const pst_search_table *table, double speed,
                                      pst_search_price *price);
/* Sets `stage` and `extra`: a fluid model is divided among the stages so that all take equally long
 * and none exceeds this part of its memory; a price is what a byte more would save. m:
 * micro-batches. Without limited memory all prices are 0. */
void pst_search_price_find(pst_search_price *price, const pst_search_config *c, double part,
                           double m);
/* Returns the least sum over all cuts, and over all recomputation of their chunks, of what the
 * chunks add. weight: [n_chunk]. item, chunk: only cuts in which this operator is on this chunk;
 * item PST_NONE: all cuts. */
double pst_search_price_least(const pst_search_price *price, const pst_search_weight *weight,
                              uint32_t item, uint32_t chunk);
/* Returns a measure of the time that pst_search_price_least takes. */
uint64_t pst_search_price_effort(const pst_search_context *x, const pst_search_config *c);
#endif
