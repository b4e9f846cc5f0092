/* The host's side as a module sees it. module_host.c is compiled into every module, and into
 * nothing else: in place of status.c and log.c, which would keep errors where the host does not
 * find them. */
#ifndef PST_KERNELS_MODULE_HOST_H
#define PST_KERNELS_MODULE_HOST_H
#include "kernels/module.h"

/* Before anything else in pst_module_open: from here on pst_fail, pst_fail_in, pst_log and
 * pst_error are the host's. `host` is borrowed. */
void pst_module_host_set(const pst_module_host *host);
#endif
