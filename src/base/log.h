/* Log lines on stderr with level and rank. One line is one write(2), so lines of several ranks do
 * not mix. */
#ifndef PST_BASE_LOG_H
#define PST_BASE_LOG_H
#include "penstock/status.h"

typedef enum { PST_LOG_ERROR, PST_LOG_WARN, PST_LOG_INFO, PST_LOG_DEBUG } pst_log_level;

void pst_log_set_level(pst_log_level level);
pst_log_level pst_log_get_level(void);
/* Sets the rank in the prefix of all log lines of this process; rank < 0: no prefix. */
void pst_log_set_rank(int rank);
void pst_log(pst_log_level level, const char *fmt, ...) PST_PRINTF(2, 3);
#endif
