/* Every request for memory of penstock's own code can be made to fail: the test is linked so that
 * calls in our libraries come here (--wrap), as do those of libyaml and jansson, which have their
 * hooks. What is got is counted until it is given back. Not covered: what glibc asks for inside a
 * call that is not wrapped; oneDNN, hwloc, UCX and PMIx, which end the process when they get none;
 * and json_pack, which frees a value twice when it gets none in the middle (jansson 2.14). */
#ifndef TESTS_RUN_ALLOCATIONS_H
#define TESTS_RUN_ALLOCATIONS_H
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <ftw.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALLOC_TABLE = 1 << 16, ALLOC_DEPTH = 12 };

typedef struct {
    void *at;      /* NULL: free; (void *)-1: was used */
    uint64_t call; /* which request it was */
    void *caller;
    int yaml;
} alloc_entry;

static struct {
    pthread_mutex_t lock;
    int on;                   /* requests count */
    uint64_t n;               /* requests so far */
    uint64_t fail;            /* this one fails; 0: none */
    int ever_after;           /* and all behind it */
    uint64_t failed;          /* how many did */
    uint64_t mark;            /* n when alloc_set_mark was called first */
    void *where[ALLOC_DEPTH]; /* the stack of the first that failed */
    int depth;
    int in_yaml, in_optional; /* what the first that failed was for */
    uint64_t live;
    alloc_entry entry[ALLOC_TABLE];
} alloc_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int alloc_inside;   /* a call that is one request as a whole */
static _Thread_local int alloc_yaml;     /* libyaml asks */
static _Thread_local int alloc_optional; /* a call that is done without */

/* 1: this request fails. */
static int alloc_fails(void) {
    int fails = 0;
    pthread_mutex_lock(&alloc_state.lock);
    if (alloc_state.on && !alloc_inside) {
        uint64_t n = ++alloc_state.n;
        fails = alloc_state.fail &&
                (n == alloc_state.fail || (alloc_state.ever_after && n > alloc_state.fail));
        if (fails && !alloc_state.failed++) {
            alloc_state.depth = backtrace(alloc_state.where, ALLOC_DEPTH);
            alloc_state.in_yaml = alloc_yaml;
            alloc_state.in_optional = alloc_optional;
        }
    }
    pthread_mutex_unlock(&alloc_state.lock);
    if (fails) errno = ENOMEM;
    return fails;
}

/* The entry of `at`, or where a new one goes when fresh; NULL: there is none. */
static alloc_entry *alloc_slot(const void *at, int fresh) {
    uint64_t i = ((uintptr_t)at >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    for (uint64_t k = 0; k < ALLOC_TABLE; k++, i = (i + 1) % ALLOC_TABLE) {
        alloc_entry *e = &alloc_state.entry[i];
        if (fresh ? !e->at || e->at == (void *)-1 : e->at == at) return e;
        if (!fresh && !e->at) return NULL;
    }
    return NULL;
}

static void *alloc_got(void *at, void *caller) {
    if (!at) return at;
    pthread_mutex_lock(&alloc_state.lock);
    if (alloc_state.on) {
        alloc_entry *e = alloc_slot(at, 1);
        if (!e) abort(); /* raise ALLOC_TABLE */
        *e = (alloc_entry){at, alloc_state.n, caller, alloc_yaml};
        alloc_state.live++;
    }
    pthread_mutex_unlock(&alloc_state.lock);
    return at;
}

static void alloc_gone(const void *at) {
    if (!at) return;
    pthread_mutex_lock(&alloc_state.lock);
    alloc_entry *e = alloc_slot(at, 0);
    if (e) {
        e->at = (void *)-1;
        alloc_state.live--;
    }
    pthread_mutex_unlock(&alloc_state.lock);
}

#define ALLOC_CALLER __builtin_return_address(0)
#define ALLOC_REAL(type, name, ...)                                                                \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

ALLOC_REAL(void, free, void *p) {
    alloc_gone(p);
    __real_free(p);
}
ALLOC_REAL(void *, malloc, size_t n) {
    return alloc_fails() ? NULL : alloc_got(__real_malloc(n), ALLOC_CALLER);
}
ALLOC_REAL(void *, calloc, size_t n, size_t m) {
    return alloc_fails() ? NULL : alloc_got(__real_calloc(n, m), ALLOC_CALLER);
}
ALLOC_REAL(void *, realloc, void *p, size_t n) {
    if (alloc_fails()) return NULL;
    alloc_gone(p);
    return alloc_got(__real_realloc(p, n), ALLOC_CALLER);
}
ALLOC_REAL(void *, aligned_alloc, size_t a, size_t n) {
    return alloc_fails() ? NULL : alloc_got(__real_aligned_alloc(a, n), ALLOC_CALLER);
}
ALLOC_REAL(char *, strdup, const char *s) {
    return alloc_fails() ? NULL : alloc_got(__real_strdup(s), ALLOC_CALLER);
}
ALLOC_REAL(char *, strndup, const char *s, size_t n) {
    return alloc_fails() ? NULL : alloc_got(__real_strndup(s, n), ALLOC_CALLER);
}
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...) {
    va_list args;
    if (alloc_fails()) return -1;
    va_start(args, format);
    int n = vasprintf(out, format, args);
    va_end(args);
    if (n >= 0) alloc_got(*out, ALLOC_CALLER);
    return n;
}
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    void *p = alloc_fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
    return p == MAP_FAILED ? p : alloc_got(p, ALLOC_CALLER);
}
ALLOC_REAL(int, munmap, void *p, size_t n) {
    alloc_gone(p);
    return __real_munmap(p, n);
}
/* Streams, folders and threads have memory of their own. */
ALLOC_REAL(FILE *, fopen, const char *path, const char *mode) {
    return alloc_fails() ? NULL : alloc_got(__real_fopen(path, mode), ALLOC_CALLER);
}
ALLOC_REAL(FILE *, open_memstream, char **text, size_t *n) {
    return alloc_fails() ? NULL : alloc_got(__real_open_memstream(text, n), ALLOC_CALLER);
}
ALLOC_REAL(int, fclose, FILE *f) {
    alloc_gone(f);
    return __real_fclose(f);
}
ALLOC_REAL(DIR *, opendir, const char *path) {
    return alloc_fails() ? NULL : alloc_got(__real_opendir(path), ALLOC_CALLER);
}
ALLOC_REAL(int, closedir, DIR *d) {
    alloc_gone(d);
    return __real_closedir(d);
}
ALLOC_REAL(char *, realpath, const char *path, char *to) {
    char *p = alloc_fails() ? NULL : __real_realpath(path, to);
    return to ? p : alloc_got(p, ALLOC_CALLER);
}
ALLOC_REAL(int, nftw, const char *path, __nftw_func_t fn, int n, int flags) {
    return alloc_fails() ? -1 : __real_nftw(path, fn, n, flags);
}
ALLOC_REAL(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *),
           void *arg) {
    return alloc_fails() ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

/* One request for all that jansson asks for inside such a call. */
json_t *__real_json_pack(const char *format, ...);
json_t *__wrap_json_pack(const char *format, ...);
json_t *__wrap_json_pack(const char *format, ...) {
    va_list args;
    va_start(args, format);
    alloc_inside++;
    json_t *value = json_vpack_ex(NULL, 0, format, args);
    alloc_inside--;
    va_end(args);
    if (!alloc_fails()) return value;
    json_decref(value); /* with what it was given */
    return NULL;
}
static json_t *alloc_no_json(json_error_t *error) {
    if (error) {
        memset(error, 0, sizeof *error);
        error->text[sizeof error->text - 1] = json_error_out_of_memory;
    }
    return NULL;
}
ALLOC_REAL(json_t *, json_loadb, const char *text, size_t n, size_t flags, json_error_t *error) {
    if (alloc_fails()) return alloc_no_json(error);
    alloc_inside++;
    json_t *value = __real_json_loadb(text, n, flags, error);
    alloc_inside--;
    return value;
}
ALLOC_REAL(json_t *, json_loads, const char *text, size_t flags, json_error_t *error) {
    if (alloc_fails()) return alloc_no_json(error);
    alloc_inside++;
    json_t *value = __real_json_loads(text, flags, error);
    alloc_inside--;
    return value;
}

/* libyaml calls these through its own symbols, which a program may replace. */
#define ALLOC_PUBLIC __attribute__((visibility("default")))
ALLOC_PUBLIC void *yaml_malloc(size_t n);
ALLOC_PUBLIC void *yaml_realloc(void *p, size_t n);
ALLOC_PUBLIC void yaml_free(void *p);
ALLOC_PUBLIC char *yaml_strdup(const char *s);
void *yaml_malloc(size_t n) {
    alloc_yaml++;
    void *p = __wrap_malloc(n ? n : 1);
    alloc_yaml--;
    return p;
}
void *yaml_realloc(void *old, size_t n) {
    alloc_yaml++;
    if (!n) n = 1;
    void *p = old ? __wrap_realloc(old, n) : __wrap_malloc(n);
    alloc_yaml--;
    return p;
}
void yaml_free(void *p) { __wrap_free(p); }
char *yaml_strdup(const char *s) {
    alloc_yaml++;
    char *p = s ? __wrap_strdup(s) : NULL;
    alloc_yaml--;
    return p;
}

/* --- what a test does with it ----------------------------------------------------------------- */

/* Requests count from here on; number `fail` of them fails, and all behind it when ever_after. */
static inline void alloc_begin(uint64_t fail, int ever_after) {
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    memset(alloc_state.entry, 0, sizeof alloc_state.entry);
    alloc_state.n = alloc_state.failed = alloc_state.mark = alloc_state.live = 0;
    alloc_state.fail = fail;
    alloc_state.ever_after = ever_after;
    alloc_state.on = 1;
}

/* What is left is in alloc_state.live. When a request of libyaml 0.2 fails it may lose what it has;
 * that is not ours. */
static inline void alloc_end(void) {
    alloc_state.on = 0;
    for (uint64_t i = 0; alloc_state.failed && alloc_state.in_yaml && i < ALLOC_TABLE; i++)
        if (alloc_state.entry[i].yaml && alloc_state.entry[i].at &&
            alloc_state.entry[i].at != (void *)-1)
            __wrap_free(alloc_state.entry[i].at);
}

static inline void alloc_print_failed(void) {
    backtrace_symbols_fd(alloc_state.where, alloc_state.depth, 2);
}

static inline void alloc_print_live(void) {
    for (uint64_t i = 0, shown = 0; i < ALLOC_TABLE && shown < 8; i++) {
        alloc_entry *e = &alloc_state.entry[i];
        if (!e->at || e->at == (void *)-1) continue;
        fprintf(stderr, "  request %llu, by:\n", (unsigned long long)e->call);
        backtrace_symbols_fd(&e->caller, 1, 2);
        shown++;
    }
}
#endif
