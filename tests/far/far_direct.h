/* The memory of the device of far_module.c, and messages straight from it. */
#ifndef TESTS_FAR_FAR_DIRECT_H
#define TESTS_FAR_FAR_DIRECT_H
#include "kernels/module.h"

/* What the device begins with. */
typedef struct {
    pst_device base;
    uint8_t *memory; /* where it really lies; the address that others see is so far away */
    uint64_t bytes, away;
    /* what the thread that computes does when its turn comes */
    void (*put)(pst_device *device, pst_status (*run)(void *arg), void *arg);
} pst_far_memory;

/* Where memory of the device really lies; other addresses stay as they are. */
static inline void *pst_far_real(const pst_far_memory *m, const void *at) {
    uint64_t seen = (uint64_t)(uintptr_t)m->memory + m->away, place = (uint64_t)(uintptr_t)at;
    return (void *)(uintptr_t)(place >= seen && place < seen + m->bytes ? place - m->away : place);
}
extern const pst_direct_ops pst_far_direct;
#endif
