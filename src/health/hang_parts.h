/* Private to hang.c and hang_verdict.c. */
#ifndef PST_HEALTH_HANG_PARTS_H
#define PST_HEALTH_HANG_PARTS_H
#include "health/hang.h"
#include "health/process_state.h"
#include "pipeline/execute/suspect.h"

enum { PST_HANG_LINE = 1000 };

typedef enum {
    PST_HANG_STOPPED,
    PST_HANG_SILENT,
    PST_HANG_ASLEEP,
    PST_HANG_COMPUTES,
    PST_HANG_LOST,
    PST_HANG_LEFT,
    PST_HANG_SKIPPED,
    PST_HANG_DISAGREES,
    PST_HANG_DEADLOCK
} pst_hang_cause;

struct pst_hang {
    const pst_prepared *p;
    pst_heartbeat *heartbeat;
    uint32_t rank;
    const char *host;
    uint64_t slack_ns;
    uint64_t (*mean_ns)[PST_OP_COUNT]; /* [n_rank] mean durations of measured steps */
    /* [n_rank] published positions; NULL: not on this host, or not known yet */
    pst_position **at;
    pst_suspect_scene scene;
    uint64_t moves; /* progress counter of this rank at the last check */
    /* time of the last check; running time since this rank last made progress; running time since
     * the other ranks' positions were last read */
    uint64_t last_ns, waited_ns, unread_ns;
    int has_suspect;
    pst_suspect suspect;
    uint64_t suspect_ns; /* running time for which the suspect has been the same */
    /* [n_rank] poll counters of the ranks when `suspect` became the suspect */
    uint64_t *polls;
    /* rank seen stopped (valid while stop_seen_ns is not 0); rank whose process state is watched */
    uint32_t stopped, watched;
    uint64_t stop_seen_ns, quiet_ns;
    pst_process_state first, last; /* process state of the rank `watched`: first and latest */
};

/* hang_read.c. Reads the positions of all visible ranks into h->scene. */
void pst_hang_read(pst_hang *h);
/* Expected duration (ns) of the instruction that `rank` computes now; 0: it computes none. */
uint64_t pst_hang_expected(const pst_hang *h, uint32_t rank);
/* An accusation against a rank. */
typedef struct {
    pst_hang_cause cause;
    uint32_t culprit, victim; /* ranks */
    uint64_t limit_ns;        /* limit that the wait has exceeded */
} pst_hang_accusation;
/* Formats the accusation as one line, from the positions of the last pst_hang_read. */
void pst_hang_verdict(const pst_hang *h, const pst_hang_accusation *a, char *line, uint32_t bytes);
#endif
