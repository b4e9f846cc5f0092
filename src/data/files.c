/* Expands paths into an ordered list of files. See files.h for the rules. */
#include "data/files.h"
#include "base/grow.h"
#include "tokenizer/text_file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum { KIND_OTHER, KIND_FILE, KIND_FOLDER, KIND_LINKED_FOLDER } kind;
typedef struct {
    char **name;
    size_t n, capacity;
} listing;

static const char while_listing[] = "for a list of data files";

/* "" is the current folder; "/" stays. The caller frees. */
static char *join(const char *folder, const char *name) {
    char *path = NULL;
    size_t n = strlen(folder);
    const char *slash = n == 0 || folder[n - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

static pst_status kind_of(const char *path, kind *out) {
    struct stat own, target;
    if (lstat(path, &own) || stat(path, &target))
        return pst_fail(pst_status_of_errno(errno), "data: cannot read %s: %s", path,
                        strerror(errno));
    *out = S_ISLNK(own.st_mode) ? KIND_LINKED_FOLDER : KIND_FOLDER;
    if (!S_ISDIR(target.st_mode)) *out = S_ISREG(target.st_mode) ? KIND_FILE : KIND_OTHER;
    return PST_OK;
}

/* Appends a file if it can be opened; no other test is reliable. */
static pst_status add_file(pst_file_list *list, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st)) {
        int error = errno;
        if (fd >= 0) close(fd);
        return pst_fail(pst_status_of_errno(error), "data: cannot read %s: %s", path,
                        strerror(error));
    }
    close(fd);
    PST_TRY(pst_grow(&list->file, sizeof *list->file, list->n, &list->cap, while_listing));
    char *copy = strdup(path);
    if (!copy) return pst_no_memory(while_listing);
    list->file[list->n++] = (pst_file){copy, (uint64_t)st.st_size};
    return PST_OK;
}

static void listing_free(listing *l) {
    for (size_t i = 0; i < l->n; i++) free(l->name[i]);
    free(l->name);
}

/* Names in a folder without hidden ones, in no particular order. */
static pst_status list_folder(const char *folder, listing *out) {
    listing l = {0};
    pst_status status = PST_OK;
    DIR *dir = opendir(*folder ? folder : ".");
    if (!dir)
        return pst_fail(pst_status_of_errno(errno), "data: cannot read folder %s: %s",
                        *folder ? folder : ".", strerror(errno));
    for (struct dirent *e; status == PST_OK && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        status = pst_grow(&l.name, sizeof *l.name, l.n, &l.capacity, while_listing);
        if (status != PST_OK) break;
        if (!(l.name[l.n] = strdup(e->d_name))) status = pst_no_memory(while_listing);
        else l.n++;
    }
    closedir(dir);
    if (status != PST_OK) listing_free(&l);
    else *out = l;
    return status;
}

/* Called for each entry of a folder. */
typedef pst_status visitor(pst_file_list *list, const char *path, kind k, const void *arg);

static pst_status visit_folder(pst_file_list *list, const char *folder, visitor *visit,
                               const void *arg) {
    listing l;
    PST_TRY(list_folder(folder, &l));
    pst_status status = PST_OK;
    for (size_t i = 0; i < l.n && status == PST_OK; i++) {
        kind k;
        char *path = join(folder, l.name[i]);
        status = path ? kind_of(path, &k) : pst_no_memory(while_listing);
        if (status == PST_OK) status = visit(list, path, k, arg);
        free(path);
    }
    listing_free(&l);
    return status;
}

/* Every file below a folder. Symbolic links to folders are not followed: they may form a cycle. */
static pst_status add_below(pst_file_list *list, const char *path, kind k, const void *arg) {
    if (k == KIND_FILE) return add_file(list, path);
    return k == KIND_FOLDER ? visit_folder(list, path, add_below, arg) : PST_OK;
}

static pst_status add_tree(pst_file_list *list, const char *folder) {
    return visit_folder(list, folder, add_below, NULL);
}

static int has_magic(const char *text) { return strpbrk(text, "*?[") != NULL; }

static pst_status add_glob(pst_file_list *list, const char *folder, const char *pattern);

/* `path` matched one component; `rest` is the remaining pattern, "" at its end. */
static pst_status descend(pst_file_list *list, const char *path, const char *rest) {
    kind k;
    PST_TRY(kind_of(path, &k));
    if (!*rest) return k == KIND_FILE ? add_file(list, path) : PST_OK;
    return k == KIND_FOLDER || k == KIND_LINKED_FOLDER ? add_glob(list, path, rest) : PST_OK;
}

/* `**` at the start of a pattern: matches the rest here and in every folder below. */
static pst_status add_any_depth(pst_file_list *list, const char *folder, const char *rest);

static pst_status go_deeper(pst_file_list *list, const char *path, kind k, const void *rest) {
    return k == KIND_FOLDER ? add_any_depth(list, path, rest) : PST_OK;
}

static pst_status add_any_depth(pst_file_list *list, const char *folder, const char *rest) {
    while (!strncmp(rest, "**/", 3))
        rest += 3; /* two in a row mean the same as one, but take longer */
    if (!*rest || !strcmp(rest, "**")) return add_tree(list, folder);
    PST_TRY(add_glob(list, folder, rest));
    return visit_folder(list, folder, go_deeper, rest);
}

static pst_status add_matches(pst_file_list *list, const char *folder, const char *component,
                              const char *rest) {
    listing l;
    PST_TRY(list_folder(folder, &l));
    pst_status status = PST_OK;
    for (size_t i = 0; i < l.n && status == PST_OK; i++) {
        if (fnmatch(component, l.name[i], FNM_PERIOD)) continue;
        char *path = join(folder, l.name[i]);
        status = path ? descend(list, path, rest) : pst_no_memory(while_listing);
        free(path);
    }
    listing_free(&l);
    return status;
}

static pst_status add_glob(pst_file_list *list, const char *folder, const char *pattern) {
    while (*pattern == '/') pattern++;
    size_t n = strcspn(pattern, "/");
    const char *rest = pattern + n;
    while (*rest == '/') rest++;
    char *component = strndup(pattern, n), *path = NULL;
    if (!component) return pst_no_memory(while_listing);
    pst_status status = PST_OK;
    if (!strcmp(component, "**")) status = add_any_depth(list, folder, rest);
    else if (has_magic(component)) status = add_matches(list, folder, component, rest);
    else if (!(path = join(folder, component))) status = pst_no_memory(while_listing);
    else if (access(path, F_OK) == 0) status = descend(list, path, rest);
    free(path);
    free(component);
    return status;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const pst_file *)a)->path, ((const pst_file *)b)->path);
}

static pst_status expand_one(pst_file_list *list, const char *path) {
    uint32_t first = list->n;
    struct stat st;
    if (!*path) return pst_fail(PST_EINPUT, "data.paths: an empty path");
    if (stat(path, &st)) {
        if (errno != ENOENT || !has_magic(path))
            return pst_fail(PST_EINPUT, "data: cannot read %s: %s", path, strerror(errno));
        PST_TRY(add_glob(list, *path == '/' ? "/" : "", path));
        if (list->n == first) return pst_fail(PST_EINPUT, "data.paths: no file matches '%s'", path);
    } else if (S_ISREG(st.st_mode)) {
        return add_file(list, path);
    } else if (S_ISDIR(st.st_mode)) {
        PST_TRY(add_tree(list, path));
        if (list->n == first)
            return pst_fail(PST_EINPUT, "data: folder %s contains no files", path);
    } else {
        return pst_fail(PST_EINPUT, "data: %s is neither a file nor a folder", path);
    }
    qsort(list->file + first, list->n - first, sizeof *list->file, by_path);
    return PST_OK;
}

typedef struct {
    char *real;
    uint32_t at;
} real_name;

static int by_real(const void *a, const void *b) {
    const real_name *x = a, *y = b;
    int order = strcmp(x->real, y->real);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Keeps the first of several paths to the same file. */
static pst_status drop_duplicates(pst_file_list *list) {
    pst_status status = PST_OK;
    uint32_t kept = 0;
    real_name *real = calloc(list->n ? list->n : 1, sizeof *real);
    if (!real) return pst_no_memory(while_listing);
    for (uint32_t i = 0; i < list->n; i++) {
        real[i] = (real_name){realpath(list->file[i].path, NULL), i};
        if (real[i].real) continue;
        status = pst_fail(pst_status_of_errno(errno), "data: cannot read %s: %s",
                          list->file[i].path, strerror(errno));
        goto out;
    }
    qsort(real, list->n, sizeof *real, by_real);
    for (uint32_t i = 1; i < list->n; i++) {
        if (strcmp(real[i].real, real[i - 1].real)) continue;
        free(list->file[real[i].at].path);
        list->file[real[i].at].path = NULL;
    }
    for (uint32_t i = 0; i < list->n; i++)
        if (list->file[i].path) list->file[kept++] = list->file[i];
out:
    for (uint32_t i = 0; i < list->n; i++) free(real[i].real);
    free(real);
    if (status == PST_OK) list->n = kept;
    return status;
}

pst_status pst_files_expand(char *const *path, uint32_t n, pst_file_list *out) {
    pst_file_list list = {0};
    pst_status status =
        n ? PST_OK : pst_fail(PST_EINPUT, "data.paths is empty: name files, folders or globs");
    for (uint32_t i = 0; i < n && status == PST_OK; i++) status = expand_one(&list, path[i]);
    if (status == PST_OK) status = drop_duplicates(&list);
    if (status != PST_OK) pst_files_free(&list);
    else *out = list;
    return status;
}

void pst_files_free(pst_file_list *list) {
    for (uint32_t i = 0; i < list->n; i++) free(list->file[i].path);
    free(list->file);
    *list = (pst_file_list){0};
}

const char *pst_files_format(const char *path) {
    uint8_t first[PST_TEXT_FILE_FIRST];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, first, sizeof first, 0);
    if (fd >= 0) close(fd);
    return n > 0 ? pst_text_file_format(first, (size_t)n) : NULL;
}
