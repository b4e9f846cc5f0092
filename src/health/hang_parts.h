/* Private to hang.c and hang_verdict.c. */
#ifndef PST_HEALTH_HANG_PARTS_H
#define PST_HEALTH_HANG_PARTS_H
#include "health/hang.h"
#include "health/process_state.h"
#include "pipeline/execute/suspect.h"

enum { PST_HANG_LINE = 1000 };

typedef enum {
    PST_CHARGE_STOPPED,
    PST_CHARGE_SILENT,
    PST_CHARGE_ASLEEP,
    PST_CHARGE_COMPUTES,
    PST_CHARGE_LOST,
    PST_CHARGE_LEFT,
    PST_CHARGE_SKIPPED,
    PST_CHARGE_DISAGREES,
    PST_CHARGE_DEADLOCK
} pst_hang_charge;

struct pst_hang {
    const pst_prepared *p;
    pst_heartbeat *heartbeat;
    uint32_t rank;
    const char *host;
    uint64_t slack_ns;
    uint64_t (*mean_ns)[PST_OP_COUNT]; /* [n_rank] of measured steps */
    pst_position **at;                 /* [n_rank] NULL: not on this host, or not seen yet */
    pst_suspect_scene scene;
    uint64_t moves; /* of this rank, at the last look */
    /* last look; time awake since this rank moved; since the others were read */
    uint64_t last_ns, waited_ns, unseen_ns;
    int has_suspect;
    pst_suspect suspect;
    uint64_t held_ns;          /* how long, awake, the suspect has been the same */
    uint64_t *polls;           /* [n_rank] when it became the suspect */
    uint32_t stopped, watched; /* ranks; stopped counts while stop_seen_ns is not 0 */
    uint64_t stop_seen_ns, quiet_ns;
    pst_process_state first, last; /* of the watched rank */
};

/* hang_read.c. Reads the positions of all ranks. */
void pst_hang_read(pst_hang *h);
/* Of what a rank computes; 0 when it does not. */
uint64_t pst_hang_expected(const pst_hang *h, uint32_t rank);
/* What a rank is accused of. */
typedef struct {
    pst_hang_charge charge;
    uint32_t culprit, victim; /* ranks */
    uint64_t limit_ns;        /* how long it might have taken */
} pst_hang_accusation;
/* The one line that names the culprit, from what pst_hang_read has seen. */
void pst_hang_verdict(const pst_hang *h, const pst_hang_accusation *a, char *line, uint32_t bytes);
#endif
