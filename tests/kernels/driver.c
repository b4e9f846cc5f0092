/* A driver of NVIDIA's for test_cuda_dnn.c, on machines without a GPU: it takes every kernel that
 * is loaded and looks for none of them, and there is no device. cuDNN's plans for devices of which
 * only the properties are known (deviceless compilation, since 9.8) are finished with no more than
 * that. */
#include <dlfcn.h>
#include <stdlib.h>

enum { NOT_FOUND = 500, NO_DEVICE = 100 };

#define SHOWN __attribute__((visibility("default")))
/* What is looked for when the library is opened and never called. */
#define ABSENT(name)                                                                               \
    SHOWN int name(void);                                                                          \
    int name(void) { return NO_DEVICE; }
ABSENT(cuInit)
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuDeviceGet)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate)
ABSENT(cuLinkDestroy)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuStreamGetCtx)

SHOWN int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

SHOWN int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n) {
    *n = 0;
    return NO_DEVICE;
}

SHOWN int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "this driver only loads kernels";
    return 0;
}

SHOWN int cuGetErrorName(int error, const char **text);
int cuGetErrorName(int error, const char **text) { return cuGetErrorString(error, text); }

/* --- kernels ---------------------------------------------------------------------------------- */

SHOWN int cuLibraryLoadData(void **library, const void *code, const void *how, const void *more,
                            unsigned n, ...);
int cuLibraryLoadData(void **library, const void *code, const void *how, const void *more,
                      unsigned n, ...) {
    (void)code;
    (void)how;
    (void)more;
    (void)n;
    *library = malloc(1);
    return *library ? 0 : 2;
}

SHOWN int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library) {
    free(library);
    return 0;
}

SHOWN int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
    (void)name;
    *kernel = library;
    return 0;
}

SHOWN int cuKernelGetFunction(void **function, void *kernel);
int cuKernelGetFunction(void **function, void *kernel) {
    *function = kernel;
    return 0;
}

SHOWN int cuKernelSetAttribute(int what, int value, void *kernel, int device);
int cuKernelSetAttribute(int what, int value, void *kernel, int device) {
    (void)what;
    (void)value;
    (void)kernel;
    (void)device;
    return 0;
}

SHOWN int cuKernelGetAttribute(int *value, int what, void *kernel, int device);
int cuKernelGetAttribute(int *value, int what, void *kernel, int device) {
    (void)what;
    (void)kernel;
    (void)device;
    *value = 0;
    return 0;
}

/* --- by name ---------------------------------------------------------------------------------- */

SHOWN int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags,
                              int *state);
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags,
                        int *state) {
    (void)version;
    (void)flags;
    *found = dlsym(RTLD_DEFAULT, name);
    if (state) *state = *found ? 0 : 1;
    return *found ? 0 : NOT_FOUND;
}

SHOWN int cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags);
int cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
