/* Implements status.h and log.h with the host's table. */
#include "kernels/module_host.h"

static const pst_module_host *host;

pst_status(pst_fail)(pst_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    host->fail(status, format, args);
    va_end(args);
    return status;
}

pst_status(pst_fail_in)(pst_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    host->fail_in(status, format, args);
    va_end(args);
    return status;
}

void pst_log(pst_log_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    host->log(level, format, args);
    va_end(args);
}

const char *pst_error(void) { return host->error(); }

void pst_module_host_set(const pst_module_host *given) { host = given; }
