/* What ranks find in their environment: all that the launcher has, and what tells them who they
 * are. */
#ifndef PST_COMM_LAUNCH_LAUNCH_ENVIRONMENT_H
#define PST_COMM_LAUNCH_LAUNCH_ENVIRONMENT_H
#include "comm/launch/launch_parts.h"

/* *env: malloc'ed, as its texts; free with pst_launch_environment_free. */
pst_status pst_launch_environment(const launcher *l, uint32_t rank, char ***env);
void pst_launch_environment_free(char **env);
#endif
