/* The environment of a rank: that of the launcher, and the variables that identify the rank. */
#ifndef PST_COMM_LAUNCH_LAUNCH_ENVIRONMENT_H
#define PST_COMM_LAUNCH_LAUNCH_ENVIRONMENT_H
#include "comm/launch/launch_parts.h"

/* *env: a malloc'ed array of malloc'ed strings; free with pst_launch_environment_free. */
pst_status pst_launch_environment(const launcher *l, uint32_t rank, char ***env);
void pst_launch_environment_free(char **env);
#endif
