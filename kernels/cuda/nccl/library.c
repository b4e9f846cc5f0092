/* Loads libnccl.so.2 from the dynamic loader's path. */
#ifdef PST_NCCL
#include "kernels/cuda/nccl/nccl.h"
#include <dlfcn.h>
#include <stdio.h>

enum { OLDEST = 21900 }; /* the first one with correct non-blocking set-up */

static const struct {
    const char *symbol;
    size_t at;
} names[] = {
    {"ncclGetVersion", offsetof(pst_nccl, version)},
    {"ncclGetUniqueId", offsetof(pst_nccl, unique_id)},
    {"ncclCommInitRankConfig", offsetof(pst_nccl, init)},
    {"ncclGroupStart", offsetof(pst_nccl, group_start)},
    {"ncclGroupEnd", offsetof(pst_nccl, group_end)},
    {"ncclSend", offsetof(pst_nccl, send)},
    {"ncclRecv", offsetof(pst_nccl, recv)},
    {"ncclAllReduce", offsetof(pst_nccl, all_reduce)},
    {"ncclReduceScatter", offsetof(pst_nccl, reduce_scatter)},
    {"ncclCommGetAsyncError", offsetof(pst_nccl, state)},
    {"ncclCommFinalize", offsetof(pst_nccl, finalize)},
    {"ncclCommDestroy", offsetof(pst_nccl, destroy)},
    {"ncclCommAbort", offsetof(pst_nccl, abort)},
    {"ncclGetErrorString", offsetof(pst_nccl, text)},
    {"ncclGetLastError", offsetof(pst_nccl, last)},
};

static int load(pst_nccl *api, char *why, size_t bytes) {
    int version = 0;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, bytes, "%s", dlerror());
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void **entry = (void **)(void *)((char *)api + names[i].at);
        if (!(*entry = dlsym(library, names[i].symbol))) {
            snprintf(why, bytes, "libnccl.so.2 is too old: it lacks the function %s",
                     names[i].symbol);
            return 0;
        }
    }
    if (api->version(&version) != ncclSuccess || version < OLDEST) {
        snprintf(why, bytes, "libnccl.so.2 is too old: version %d.%d, but 2.19 or later is needed",
                 version / 10000, version / 100 % 100);
        return 0;
    }
    return 1;
}

/* One thread at a time may call this, like all functions that open something. */
const pst_nccl *pst_nccl_get(const char **why) {
    static pst_nccl api;
    static char text[256];
    static int state; /* 1: loaded, -1: not available */
    if (!state) state = load(&api, text, sizeof text) ? 1 : -1;
    *why = text;
    return state > 0 ? &api : NULL;
}
#endif
