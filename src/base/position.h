/* A rank's position: what it is doing and waiting for now, for the other ranks to read
 * (comm/watch/heartbeat.c shares it within a host). The rank's own thread writes it, in the
 * executor and in collectives; every word is atomic by itself. `moves` counts all progress: if two
 * readings have the same value, nothing has changed between them. */
#ifndef PST_BASE_POSITION_H
#define PST_BASE_POSITION_H
#include <stdatomic.h>
#include <stdint.h>

/* HOST: neither in an instruction list nor in a collective (reading data, writing files). COMPUTE,
 * WAIT, EXCHANGE: in an instruction list; EXCHANGE: in communication between the ranks of a tensor
 * group. */
typedef enum {
    PST_AT_HOST,
    PST_AT_COMPUTE,
    PST_AT_WAIT,
    PST_AT_COLLECTIVE,
    PST_AT_EXCHANGE
} pst_activity;

enum { PST_POSITION_POSTS = 64, PST_POSITION_LOG = 64, PST_POSITION_SITE = 3 };

/* X(type, name): members that are also in pst_position_view. */
/* clang-format off */
#define PST_POSITION_WORDS(X) \
    X(uint64_t, moves) \
    X(uint64_t, polls)     /* how often this rank has polled its transport */ \
    X(uint64_t, since_ns)  /* CLOCK_MONOTONIC: start of instruction, wait or collective */ \
    X(uint64_t, train_step) /* optimizer step of the run, from 1 */ \
    X(uint32_t, activity) \
    X(uint32_t, train)     /* 1: runs training lists, 0: evaluation lists */ \
    X(uint32_t, n_run)     /* instruction lists begun */ \
    X(uint32_t, instr)     /* COMPUTE, EXCHANGE: the instruction; WAIT: the next one to compute */ \
    X(uint32_t, step)      /* COMPUTE, EXCHANGE: operator of that instruction */ \
    X(uint32_t, sent)      /* all SENDs before this instruction are posted */ \
    X(uint32_t, received)  /* all RECVs before this instruction are posted */ \
    X(uint32_t, waits_for) /* WAIT: the transfer awaited; UINT32_MAX: not known yet */ \
    X(uint32_t, n_coll)    /* collectives begun */ \
    X(uint32_t, coll_kind) \
    X(uint32_t, coll_root) \
    X(uint64_t, coll_bytes) \
    X(uint64_t, coll_wait) /* COLLECTIVE: the pst_position_message awaited; 0: not known */ \
    X(uint64_t, n_coll_post) \
    X(uint64_t, n_op)      /* instruction lists and collectives begun */
/* clang-format on */

typedef struct {
#define PST_POSITION_ATOMIC(type, name) _Atomic type name;
    PST_POSITION_WORDS(PST_POSITION_ATOMIC)
#undef PST_POSITION_ATOMIC
    /* the last messages posted by collectives */
    _Atomic uint64_t coll_post[PST_POSITION_POSTS];
    /* the latest entries of pst_position_op: instruction lists and collectives */
    _Atomic uint64_t log[PST_POSITION_LOG];
    _Atomic uint64_t site[PST_POSITION_SITE]; /* place of the last collective, "file.c:120"; or
                                                 empty */
    _Atomic uint32_t pid, heartbeat_tid;      /* ids of the process, and of its heartbeat thread */
    _Atomic uint64_t pid_space;               /* inode of the process' PID namespace */
} pst_position;

typedef struct {
#define PST_POSITION_PLAIN(type, name) type name;
    PST_POSITION_WORDS(PST_POSITION_PLAIN)
#undef PST_POSITION_PLAIN
    uint64_t coll_post[PST_POSITION_POSTS];
    uint64_t log[PST_POSITION_LOG];
    uint64_t site[PST_POSITION_SITE];
} pst_position_view;

/* For writers: one thread per position, so an increment needs no lock. */
#define PST_POSITION_SET(p, name, value)                                                           \
    atomic_store_explicit(&(p)->name, (value), memory_order_relaxed)
#define PST_POSITION_GET(p, name) atomic_load_explicit(&(p)->name, memory_order_relaxed)
static inline void pst_position_move(pst_position *p) {
    atomic_store_explicit(&p->moves, PST_POSITION_GET(p, moves) + 1, memory_order_release);
}
static inline void pst_position_poll(pst_position *p) {
    PST_POSITION_SET(p, polls, PST_POSITION_GET(p, polls) + 1);
}

/* A message of a collective as one word, never 0: kind (0: send, 1: receive), peer, number. */
static inline uint64_t pst_position_message(int kind, uint32_t peer, uint32_t seq) {
    return UINT64_C(1) << 63 | (uint64_t)(kind != 0) << 62 | (uint64_t)(peer & 0x3fffffff) << 32 |
           seq;
}

/* Appends a word to the log. All ranks run the same program, so where their logs differ, a rank has
 * skipped an instruction list or a collective. The word of a collective is its place in the sources
 * (hash of function and line), or, if that is unknown, its kind and size. */
enum { PST_OP_LIST_EVAL = 1, PST_OP_LIST_TRAIN = 2 };
void pst_position_op(pst_position *p, uint64_t word);
/* A number that identifies a place in the sources; 0: file is NULL. */
uint64_t pst_position_site(pst_position *p, const char *file, const char *function, uint32_t line);

/* Copies the position to *view. Returns 1 if the copy is consistent; 0 if the position changed
 * during the copy: *view is then unchanged. */
int pst_position_read(const pst_position *p, pst_position_view *view);
/* Records the ids of this process; heartbeat_tid 0: there is no heartbeat thread. */
void pst_position_set_process(pst_position *p, uint32_t heartbeat_tid);
#endif
