/* See module.h. */
#include "backends/module.h"
#include "base/log.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "libpenstock-cuda.so"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const pst_module *loaded;
static char why[1024];

/* --- functions for the module ----------------------------------------------------------------- */

static pst_status host_fail(pst_status status, const char *format, va_list args) {
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    return pst_fail(status, "%s", text);
}

static pst_status host_fail_in(pst_status status, const char *format, va_list args) {
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    return pst_fail_in(status, "%s", text);
}

static void host_log(pst_log_level level, const char *format, va_list args) {
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    pst_log(level, "%s", text);
}

static const pst_module_host host = {PST_MODULE_VERSION, sizeof host, PST_VERSION, host_fail,
                                     host_fail_in,       host_log,    pst_error};

/* --- search ----------------------------------------------------------------------------------- */

/* The value of PENSTOCK_MODULE; NULL: unset. */
static const char *named(void) {
    const char *path = getenv("PENSTOCK_MODULE");
    return path && *path ? path : NULL;
}

/* PENSTOCK_MODULE, or the file in the folder of this library. */
static void find(char path[PATH_MAX]) {
    Dl_info own;
    const char *file = dladdr(&host, &own) && own.dli_fname ? own.dli_fname : "",
               *slash = strrchr(file, '/');
    if (named()) snprintf(path, PATH_MAX, "%s", named());
    else snprintf(path, PATH_MAX, "%.*s" FILE_NAME, slash ? (int)(slash + 1 - file) : 0, file);
}

/* Loading the module takes longer than a small run, and many machines have the file but no GPU: so
 * this looks for the driver's device files first. */
static int has_driver(void) {
    /* /dev/dxg: Windows Subsystem for Linux */
    static const char *const files[] = {"/dev/nvidiactl", "/dev/dxg"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(files[i], F_OK) == 0) return 1;
    return 0;
}

int pst_module_there(void) {
    char path[PATH_MAX];
    find(path);
    return named() || (access(path, F_OK) == 0 && has_driver());
}

/* --- loading ---------------------------------------------------------------------------------- */

static const char *refuse(const pst_module *m, const char *path) {
    if (m->version != PST_MODULE_VERSION || m->bytes != sizeof *m)
        pst_fail(PST_EINPUT,
                 "%s was built from a different version than the program; build and install both "
                 "together",
                 path);
    else if (!m->name || !m->device || !m->device->name || strcmp(m->name, m->device->name) ||
             !m->kernel || !m->arith)
        pst_fail(PST_EINPUT,
                 "%s has no device or no kernels; expected a complete accelerator module", path);
    else return NULL;
    return pst_error();
}

/* The library is never unloaded, because its own dependencies may not support it. */
static const pst_module *open_module(const char *path) {
    pst_module_open_fn open_fn = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        pst_fail(PST_EINPUT, "%s", dlerror());
        return NULL;
    }
    *(void **)&open_fn = dlsym(library, PST_MODULE_SYMBOL);
    if (!open_fn) {
        pst_fail(PST_EINPUT,
                 "%s is not an accelerator module: it has no function " PST_MODULE_SYMBOL, path);
        return NULL;
    }
    pst_error_clear();
    const pst_module *m = open_fn(&host);
    if (!m && !*pst_error())
        pst_fail(PST_EINPUT, "%s failed to initialise and reported no reason", path);
    return m && !refuse(m, path) ? m : NULL;
}

static void load(void) {
    char path[PATH_MAX], before[1024];
    snprintf(before, sizeof before, "%s", pst_error());
    find(path);
    if (!named() && access(path, F_OK) != 0) pst_fail(PST_EINPUT, "%s does not exist", path);
    else loaded = open_module(path);
    if (loaded) pst_log(PST_LOG_DEBUG, "module %s: loaded from %s", loaded->name, path);
    else snprintf(why, sizeof why, "%s", pst_error());
    /* a query must not overwrite this thread's error message */
    if (*before) pst_fail(PST_EINPUT, "%s", before);
    else pst_error_clear();
}

const pst_module *pst_module_get(void) {
    pthread_once(&once, load);
    return loaded;
}

const char *pst_module_why(void) { return why; }

const char *pst_module_name(void) {
    if (!named()) return "cuda";
    return pst_module_get() ? loaded->name : NULL;
}

int pst_module_has(const pst_device_ops *device) {
    return device && loaded && loaded->device == device;
}
