/* The accelerator module (kernels/module.h): libpenstock-cuda.so in the folder of libpenstock, or
 * the file named by PENSTOCK_MODULE. Loaded once, when it is first needed, and kept until the
 * process ends. Any thread. */
#ifndef PST_BACKENDS_MODULE_H
#define PST_BACKENDS_MODULE_H
#include "kernels/module.h"

/* Name of the module's device: "cuda". Loads the module only if PENSTOCK_MODULE is set, because
 * only the file then knows the name. NULL: that file cannot be loaded. */
const char *pst_module_name(void);
/* 1: PENSTOCK_MODULE is set, or both the module's file and an NVIDIA driver exist. 0: device auto
 * does not try to load the module. */
int pst_module_there(void);
/* The module's table; the first call loads the module. NULL: loading failed (pst_module_why). */
const pst_module *pst_module_get(void);
/* Why loading failed, in one line: "/usr/lib/libpenstock-cuda.so does not exist", "libcudart.so.12:
 * cannot open ...". "": no attempt has failed. Static text. */
const char *pst_module_why(void);
/* 1: `device` is the device of the loaded module. */
int pst_module_has(const pst_device_ops *device);
#endif
