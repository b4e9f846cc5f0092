/* The host as a module sees it. module_host.c is compiled into every module in place of status.c
 * and log.c, whose errors the host would not see. */
#ifndef PST_KERNELS_MODULE_HOST_H
#define PST_KERNELS_MODULE_HOST_H
#include "kernels/module.h"

/* Called first in pst_module_open: from then on pst_fail, pst_fail_in, pst_log and pst_error are
 * the host's. `host` is borrowed. */
void pst_module_host_set(const pst_module_host *host);
#endif
