/* See position.h. */
#include "base/position.h"
#include <sys/stat.h>
#include <unistd.h>

int pst_position_read(const pst_position *p, pst_position_view *view) {
    pst_position_view v;
    uint64_t before = atomic_load_explicit(&p->moves, memory_order_acquire);
#define COPY(type, name) v.name = PST_POSITION_GET(p, name);
    PST_POSITION_WORDS(COPY)
#undef COPY
    for (int i = 0; i < PST_POSITION_POSTS; i++) v.coll_post[i] = PST_POSITION_GET(p, coll_post[i]);
    atomic_thread_fence(memory_order_acquire);
    if (PST_POSITION_GET(p, moves) != before || v.moves != before) return 0;
    *view = v;
    return 1;
}

void pst_position_sign(pst_position *p, uint32_t beat_tid) {
    struct stat st;
    PST_POSITION_SET(p, beat_tid, beat_tid);
    PST_POSITION_SET(p, pid_space, stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0);
    PST_POSITION_SET(p, pid, (uint32_t)getpid());
}
