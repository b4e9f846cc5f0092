/* The back end that is loaded where it is there (kernels/module.h): libpenstock-cuda.so beside
 * libpenstock, or what PENSTOCK_MODULE names. Loaded once, when something first needs it, and kept
 * until the process ends. Any thread. */
#ifndef PST_BACKENDS_MODULE_H
#define PST_BACKENDS_MODULE_H
#include "kernels/module.h"

/* Its device's name without loading it, where that is known; else it is loaded. NULL: there is none
 * of that name. */
const char *pst_module_name(void);
/* 1 when there is a file to load and a driver that it may use: else device auto does not look
 * further. */
int pst_module_there(void);
/* NULL: pst_module_why says why. */
const pst_module *pst_module_get(void);
/* "there is no /usr/lib/libpenstock-cuda.so", "libcudart.so.12: cannot open ...": one line, ""
 * while it has not failed. */
const char *pst_module_why(void);
/* 1 for a device of the module, which is loaded then. */
int pst_module_has(const pst_device_ops *device);
#endif
