/* One operator of a graph with operands to run it on, for measuring. The operands of all its passes
 * lie in one block, on the host on huge pages as in training, are filled with plausible numbers,
 * and stay the same. */
#ifndef PST_COMMANDS_BENCH_CASE_H
#define PST_COMMANDS_BENCH_CASE_H
#include "commands/bench_site.h"

enum { PST_BENCH_OPERANDS = 24 };

typedef struct {
    uint8_t kind, index; /* pst_arg_kind; which of that kind */
    pst_dtype dtype;
    uint64_t elements, offset;
} pst_bench_operand;

typedef struct {
    const pst_graph *graph; /* borrowed, as is node */
    const pst_node *node;
    uint8_t *base;           /* of the site's memory */
    uint64_t scratch, bytes; /* offset of the scratch; all that is needed */
    uint32_t n_operand;
    pst_bench_operand operand[PST_BENCH_OPERANDS];
} pst_bench_case;

/* Which operands there are. scratch_bytes: what the hungriest pass wants. */
void pst_bench_case_list(const pst_graph *g, const pst_node *node, uint64_t scratch_bytes,
                         pst_bench_case *c);
/* Takes c->bytes of the site, in place of what was there, and fills them. ENOMEM when there is not
 * that much left. */
pst_status pst_bench_case_place(pst_bench_case *c, pst_bench_site *site);
/* The argument block of a pass. arg: room for PST_MAX_ARG pointers, which the call keeps. first: as
 * in pst_call. */
void pst_bench_case_call(const pst_bench_case *c, pst_pass pass, int first, void **arg,
                         pst_call *call);
/* bench_peaks.c. Of a module's device, measured on one of its own: FLOP/s of a large product in
 * this type, and bytes/s, read and written, of a large copy. */
pst_status pst_bench_peaks(const pst_device_ops *ops, const pst_device_config *config,
                           pst_dtype dtype, double *flops_per_s, double *bytes_per_s);
/* 1 when the two nodes of a graph compute the same thing on operands of the same shapes. */
int pst_bench_same_shape(const pst_graph *g, const pst_node *a, const pst_node *b);
#endif
