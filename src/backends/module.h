/* The accelerator module (kernels/module.h): libpenstock-cuda.so beside libpenstock, or the file
 * named by PENSTOCK_MODULE. Loaded once, when it is first needed, and kept until the process ends.
 * Any thread. */
#ifndef PST_BACKENDS_MODULE_H
#define PST_BACKENDS_MODULE_H
#include "kernels/module.h"

/* The name of its device, without loading it if the name is known. NULL: there is no module. */
const char *pst_module_name(void);
/* 1: there is a file to load and a driver for it; else device auto ignores the module. */
int pst_module_there(void);
/* NULL: pst_module_why explains. */
const pst_module *pst_module_get(void);
/* Why it could not be loaded, in one line: "/usr/lib/libpenstock-cuda.so does not exist",
 * "libcudart.so.12: cannot open ..."; "": it has not failed. */
const char *pst_module_why(void);
/* 1: the device belongs to the module, which is then loaded. */
int pst_module_has(const pst_device_ops *device);
#endif
