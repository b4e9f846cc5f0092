#ifndef TESTS_FAR_FAR_DIRECT_H
#define TESTS_FAR_FAR_DIRECT_H
#include "kernels/module.h"

/* far_module.c: where memory of the device really lies. */
void *pst_far_real(const pst_device *device, const void *at);
extern const pst_direct_ops pst_far_direct; /* far_direct.c */
#endif
