/* The folder of pieces, and waiting for others who write there. See encode_parts.h. */
#include "data/encode_parts.h"
#include "base/clock.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_US = 10000 /* between looks at the work of other processes */ };
static const uint64_t STALL_NS = 60000000000; /* without any progress of them */

char *pst_encode_path(const pst_encode_job *j, uint32_t g, uint64_t k) {
    char *path = NULL;
    int n = asprintf(&path, "%s/%016" PRIx64 "-%06u-%06" PRIu64, j->folder, j->o->key, g, k);
    return n < 0 ? NULL : path;
}

/* Bytes in the folder: they grow while anybody encodes. */
static uint64_t bytes_of_folder(const char *folder) {
    struct stat st;
    uint64_t bytes = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0) bytes += (uint64_t)st.st_size + 1;
    if (d) closedir(d);
    return bytes;
}

pst_status pst_encode_wait(const pst_encode_job *j, pst_encode_stall *s) {
    uint64_t now = pst_monotonic_ns(), bytes = bytes_of_folder(j->folder);
    if (pst_encode_signals_came() || j->failed) return pst_fail(PST_BUSY, "stopped");
    mkdir(j->folder, 0777); /* a process that failed may have removed it, with nothing in it */
    if (bytes != s->bytes || !s->since_ns) *s = (pst_encode_stall){bytes, now};
    if (now - s->since_ns > STALL_NS)
        return pst_fail(PST_EPEER,
                        "data: another process encodes a part of the same text, but %s has not "
                        "grown for 60 s: it hangs",
                        j->folder);
    usleep(WAIT_US);
    return PST_OK;
}

uint32_t pst_encode_remove(const pst_encode_job *j, int others) {
    char key[17];
    uint32_t n = 0;
    DIR *d = opendir(j->folder);
    snprintf(key, sizeof key, "%016" PRIx64, j->o->key);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        int own = !strncmp(entry->d_name, key, sizeof key - 1) || !strcmp(entry->d_name, "lock");
        if (entry->d_name[0] == '.' || own == others) continue;
        if (unlinkat(dirfd(d), entry->d_name, 0) == 0) n++;
    }
    if (d) closedir(d);
    return n;
}
