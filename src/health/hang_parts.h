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
    pst_position **at;                 /* [n_rank] NULL: not on this host, or not known yet */
    pst_suspect_scene scene;
    uint64_t moves; /* of this rank, at the last check */
    /* time of the last check; time awake since this rank made progress; since the others' positions
     * were read */
    uint64_t last_ns, waited_ns, unread_ns;
    int has_suspect;
    pst_suspect suspect;
    uint64_t suspect_ns;       /* how long, awake, the suspect has been the same */
    uint64_t *polls;           /* [n_rank] when it became the suspect */
    uint32_t stopped, watched; /* ranks; `stopped` is valid while stop_seen_ns is not 0 */
    uint64_t stop_seen_ns, quiet_ns;
    pst_process_state first, last; /* states of the watched rank */
};

/* hang_read.c. Reads the positions of all ranks. */
void pst_hang_read(pst_hang *h);
/* Expected duration of the instruction that a rank computes; 0 when it computes none. */
uint64_t pst_hang_expected(const pst_hang *h, uint32_t rank);
/* An accusation against a rank. */
typedef struct {
    pst_hang_cause cause;
    uint32_t culprit, victim; /* ranks */
    uint64_t limit_ns;        /* the limit of the wait */
} pst_hang_accusation;
/* Formats the line that names the culprit, from the positions of the last pst_hang_read. */
void pst_hang_verdict(const pst_hang *h, const pst_hang_accusation *a, char *line, uint32_t bytes);
#endif
