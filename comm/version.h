/* Which versions of the communication libraries are loaded. */
#ifndef PST_COMM_VERSION_H
#define PST_COMM_VERSION_H
/* Static text, never NULL; filled on the first call. One thread at a time. */
const char *pst_comm_ucx_version(void);
const char *pst_comm_pmix_version(void);
#endif
