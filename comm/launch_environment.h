/* What a rank of our launcher finds in its environment. */
#ifndef PST_COMM_LAUNCH_ENVIRONMENT_H
#define PST_COMM_LAUNCH_ENVIRONMENT_H
#include "comm/server.h"

/* The launcher's own environment without what another launcher left there, and what this rank needs: a malloc'ed array,
 * for pst_launch_environment_free. */
pst_status pst_launch_environment(pst_server *server, uint32_t rank, int page_fd, char ***env);
void pst_launch_environment_free(char **env);
#endif
