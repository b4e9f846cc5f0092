/* One operator of a graph with operands to measure it on. The operands of all its passes lie in one
 * block (on the host on huge pages, as in training), hold random numbers of realistic size, and do
 * not change. */
#ifndef PST_COMMANDS_BENCH_CASE_H
#define PST_COMMANDS_BENCH_CASE_H
#include "commands/bench_target.h"

enum { PST_BENCH_OPERANDS = 24 };

typedef struct {
    uint8_t kind, index; /* kind: pst_arg_kind; index: number among the operands of that kind */
    pst_dtype dtype;
    uint64_t elements, offset;
} pst_bench_operand;

typedef struct {
    const pst_graph *graph; /* borrowed, like node */
    const pst_node *node;
    uint8_t *base;           /* in the target's memory */
    uint64_t scratch, bytes; /* offset of the scratch; size of the whole block */
    uint32_t n_operand;
    pst_bench_operand operand[PST_BENCH_OPERANDS];
} pst_bench_case;

/* Lists the operands of a node. scratch_bytes: the largest scratch memory that a pass needs. */
void pst_bench_case_list(const pst_graph *g, const pst_node *node, uint64_t scratch_bytes,
                         pst_bench_case *c);
/* Reserves c->bytes of the target, replacing its contents, and fills them. ENOMEM if they do not
 * fit. */
pst_status pst_bench_case_place(pst_bench_case *c, pst_bench_target *target);
/* The argument block of a pass. arg: at least PST_MAX_ARG pointers, which must live as long as
 * the call. first: as in pst_call. */
void pst_bench_case_call(const pst_bench_case *c, pst_pass pass, int first, void **arg,
                         pst_call *call);
/* bench_peaks.c. Peaks of a module's device, measured with a device opened for it: FLOP/s of a
 * large matrix product of this type, and bytes/s, read and written, of a large copy. */
pst_status pst_bench_peaks(const pst_device_ops *ops, const pst_device_config *config,
                           pst_dtype dtype, double *flops_per_s, double *bytes_per_s);
/* 1 if two nodes of a graph have the same operator, attributes and operand shapes. */
int pst_bench_same_shape(const pst_graph *g, const pst_node *a, const pst_node *b);
#endif
