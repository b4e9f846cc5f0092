/* How operands of matrix products and of convolutions are packed. */
#ifndef PST_KERNELS_CPU_PACK_H
#define PST_KERNELS_CPU_PACK_H
#include <stdint.h>

/* Rows of A or columns of B ("items") that are packed into panels (product_vec.h). */
typedef struct {
    const void *from; /* elements of the product's type */
    uint64_t ld, items, terms;
    int across; /* items are contiguous and terms ld apart; else terms are contiguous and items ld
                   apart */
    void *to;
} pst_pack;
#endif
