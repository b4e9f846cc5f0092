/* See position.h. */
#include "base/position.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int pst_position_read(const pst_position *p, pst_position_view *view) {
    pst_position_view v;
    uint64_t before = atomic_load_explicit(&p->moves, memory_order_acquire);
#define COPY(type, name) v.name = PST_POSITION_GET(p, name);
    PST_POSITION_WORDS(COPY)
#undef COPY
    for (int i = 0; i < PST_POSITION_POSTS; i++) v.coll_post[i] = PST_POSITION_GET(p, coll_post[i]);
    for (int i = 0; i < PST_POSITION_LOG; i++) v.log[i] = PST_POSITION_GET(p, log[i]);
    for (int i = 0; i < PST_POSITION_SITE; i++) v.site[i] = PST_POSITION_GET(p, site[i]);
    atomic_thread_fence(memory_order_acquire);
    if (PST_POSITION_GET(p, moves) != before || v.moves != before) return 0;
    *view = v;
    return 1;
}

void pst_position_op(pst_position *p, uint64_t word) {
    uint64_t n = PST_POSITION_GET(p, n_op);
    PST_POSITION_SET(p, log[n % PST_POSITION_LOG], word);
    PST_POSITION_SET(p, n_op, n + 1);
}

uint64_t pst_position_site(pst_position *p, const char *file, const char *function, uint32_t line) {
    char text[PST_POSITION_SITE * sizeof(uint64_t)] = "";
    const char *slash = file ? strrchr(file, '/') : NULL;
    uint64_t word[PST_POSITION_SITE], hash = 5381;
    if (file) snprintf(text, sizeof text, "%.16s:%u", slash ? slash + 1 : file, line);
    memcpy(word, text, sizeof word);
    for (int i = 0; i < PST_POSITION_SITE; i++) PST_POSITION_SET(p, site[i], word[i]);
    for (const char *at = text; *at && *at != ':'; at++) hash = hash * 33 + (unsigned char)*at;
    for (const char *at = file ? function : ""; *at; at++) hash = hash * 33 + (unsigned char)*at;
    return file ? hash << 32 | line : 0;
}

void pst_position_set_process(pst_position *p, uint32_t heartbeat_tid) {
    struct stat st;
    PST_POSITION_SET(p, heartbeat_tid, heartbeat_tid);
    PST_POSITION_SET(p, pid_space, stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0);
    PST_POSITION_SET(p, pid, (uint32_t)getpid());
}
