/* The version of oneDNN that is loaded. */
#ifndef PST_KERNELS_VERSION_H
#define PST_KERNELS_VERSION_H
/* The version, such as "2.6.3". Static text, filled on the first call; one thread at a time. */
const char *pst_kernels_onednn_version(void);
#endif
