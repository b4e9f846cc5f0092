/* See process_state.h. */
#include "health/process_state.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads state and CPU time from a stat file; 0 when it no longer exists. */
static int read_stat(const char *path, char *state, uint64_t *cpu_ns) {
    char text[1024];
    unsigned long long user, system;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name before it may contain any characters */
    if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", state, &user,
                      &system) != 3)
        return 0;
    *cpu_ns = (user + system) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    return 1;
}

/* Whether the other process has the same pid in this process's namespace. */
static int same_pid_space(const pst_position *of) {
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 &&
           (uint64_t)st.st_ino == PST_POSITION_GET(of, pid_space);
}

static int any_can_run(uint32_t pid, uint32_t except) {
    char path[64], state;
    uint64_t ns;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || strtoul(e->d_name, NULL, 10) == except) continue;
        snprintf(path, sizeof path, "/proc/%u/task/%.16s/stat", pid, e->d_name);
        found = read_stat(path, &state, &ns) && (state == 'R' || state == 'D');
    }
    if (dir) closedir(dir);
    return found;
}

int pst_process_state_read(const pst_position *of, pst_process_state *out) {
    uint32_t pid = PST_POSITION_GET(of, pid);
    char path[64], state;
    pst_process_state p = {0};
    if (!pid || !same_pid_space(of)) return 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (!read_stat(path, &state, &p.ns) || state == 'Z' || state == 'X') return 0;
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", pid, pid);
    if (!read_stat(path, &state, &p.main_ns)) return 0;
    p.is_stopped = state == 'T' || state == 't';
    p.can_run = any_can_run(pid, PST_POSITION_GET(of, heartbeat_tid));
    *out = p;
    return 1;
}
