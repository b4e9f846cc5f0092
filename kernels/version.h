/* The version of oneDNN that is loaded. */
#ifndef PST_KERNELS_VERSION_H
#define PST_KERNELS_VERSION_H
/* "2.6.3"; static text, filled on the first call. One thread at a time. */
const char *pst_kernels_onednn_version(void);
#endif
