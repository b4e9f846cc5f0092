/* The host functions in a module. module_host.c is compiled into every module instead of status.c
 * and log.c, so that errors and messages of the module reach the host. */
#ifndef PST_KERNELS_MODULE_HOST_H
#define PST_KERNELS_MODULE_HOST_H
#include "kernels/module.h"

/* To be called first in pst_module_open: from then on pst_fail, pst_fail_in, pst_log and pst_error
 * call the host. `host` is borrowed. */
void pst_module_host_set(const pst_module_host *host);
#endif
