/* Heartbeat: the ranks of a host share a page with one line per rank: tick count, state and last
 * instruction. In each rank a thread increments the rank's tick count and watches the other lines.
 * The thread measures time in its own ticks, so stopping the whole job (Ctrl-Z) does not look like
 * a failure. */
#ifndef PST_COMM_WATCH_HEARTBEAT_H
#define PST_COMM_WATCH_HEARTBEAT_H
#include "base/position.h"
#include "base/world.h"

typedef struct pst_heartbeat pst_heartbeat;
enum {
    PST_HEARTBEAT_MS = 50,
    PST_HEARTBEAT_MISSES = 40
}; /* MS: ms per tick. A peer whose tick count does not change during MISSES ticks of this rank (2
      s) is considered dead */

/* Opens the page and starts the thread. Collective over the ranks of this host (uses put, get and
 * fence of the world). The page is an anonymous file (memfd), which the other ranks open through
 * the /proc entry of the host's first rank; only the same user can do that. penstock's launcher
 * passes a page of its own in PENSTOCK_HEARTBEAT_FD. */
pst_status pst_heartbeat_open(pst_world *world, pst_heartbeat **heartbeat);
void pst_heartbeat_close(pst_heartbeat *h); /* marks a normal exit of this rank */
/* Where the executor writes its last instruction, packed (opcode << 56 | chunk << 32 |
 * micro-batch); a key-value store (src/kv) writes PST_HEARTBEAT_STORE. */
#define PST_HEARTBEAT_STORE (UINT64_MAX - 1)
volatile uint64_t *pst_heartbeat_instr(pst_heartbeat *h);
/* OK while all ranks of the host live. EPEER: the message names the first dead one (rank, host,
 * last instruction), or this rank if the others have declared it dead. Any thread; cheap. */
pst_status pst_heartbeat_check(pst_heartbeat *h);
/* The number of ranks that share the page: those of this host. */
uint32_t pst_heartbeat_ranks(const pst_heartbeat *h);
/* From now on the heartbeat's thread calls tick(arg) at every tick (PST_HEARTBEAT_MS). NULL: stops
 * these calls; none is running when this function returns. */
void pst_heartbeat_on_tick(pst_heartbeat *h, void (*tick)(void *arg), void *arg);
/* The published position of a rank of the job; NULL: the rank is on another host. */
pst_position *pst_heartbeat_position(pst_heartbeat *h, uint32_t rank);
/* 1: the rank has exited normally. */
int pst_heartbeat_left(pst_heartbeat *h, uint32_t rank);
/* 1: the tick count of another rank, *rank, has stopped. */
int pst_heartbeat_silent(pst_heartbeat *h, uint32_t *rank);
/* Accuses `rank` of a hang: on every rank, the next pst_heartbeat_check fails with the message
 * `verdict`, unless an earlier fault is recorded. is_stuck: 1: that rank will not exit by
 * itself. */
void pst_heartbeat_accuse(pst_heartbeat *h, uint32_t rank, int is_stuck, const char *verdict);
/* 1: another rank has made an accusation; that rank prints the verdict. */
int pst_heartbeat_accused(pst_heartbeat *h);
/* 1: the launcher has seen another rank, *rank, die. One survivor then reports where the dead rank
 * was and which rank waits for it (pst_heartbeat_report_dead); the launcher prints the report. */
int pst_heartbeat_dead(pst_heartbeat *h, uint32_t *rank);
void pst_heartbeat_report_dead(pst_heartbeat *h, uint32_t rank, const char *where);
/* Sets a line that the launcher prints after the failure of a rank or link. Only one rank may call
 * it; later calls replace the line. */
void pst_heartbeat_note(pst_heartbeat *h, const char *note);
/* Announces that the job was saved because of this signal and that the ranks exit with the
 * corresponding status (launch.h). */
void pst_heartbeat_stopped(pst_heartbeat *h, int signal);
/* Sets why this rank exits with EPEER; the launcher prints the reason if it knows no better one.
 * Only the first call has an effect. */
void pst_heartbeat_set_reason(pst_heartbeat *h, const char *why);
/* Marks this rank as failed; other ranks learn of it at their next pst_heartbeat_check. */
void pst_heartbeat_fail(pst_heartbeat *h);

/* The launcher's side: an anonymous page (memfd) for n ranks, which inherit its descriptor. In the
 * following functions `rank` is the index of a line. */
typedef struct pst_heartbeat_page pst_heartbeat_page;
pst_status pst_heartbeat_page_open(uint32_t n, int *fd, pst_heartbeat_page **page);
/* Adds page `index` behind the earlier ones of this file: that of an epoch (pst_world.epoch). */
pst_status pst_heartbeat_page_add(int fd, uint32_t n, uint32_t index, pst_heartbeat_page **page);
void pst_heartbeat_page_close(pst_heartbeat_page *page);
void pst_heartbeat_page_mark_dead(pst_heartbeat_page *page, uint32_t rank);
/* Marks a rank that exited normally without closing its heartbeat. Not for ranks that failed, whose
 * line stays unchanged. */
void pst_heartbeat_page_mark_gone(pst_heartbeat_page *page, uint32_t rank);
/* 1: the rank runs: its heartbeat is open and the rank is not marked. */
int pst_heartbeat_page_alive(const pst_heartbeat_page *page, uint32_t rank);
/* 1: the rank has never opened its heartbeat. */
int pst_heartbeat_page_absent(const pst_heartbeat_page *page, uint32_t rank);
/* 1: the rank has opened its heartbeat; *number is its rank in the job. */
int pst_heartbeat_page_rank(const pst_heartbeat_page *page, uint32_t rank, uint32_t *number);
/* 1: the rank has begun its first instruction. */
int pst_heartbeat_page_started(const pst_heartbeat_page *page, uint32_t rank);
/* 1: the tick count of some rank, *rank, has stopped. */
int pst_heartbeat_page_silent(const pst_heartbeat_page *page, uint32_t *rank);
/* 1: a rank was accused (pst_heartbeat_accuse): *rank; the message is *verdict, which lives as long
 * as the page. */
int pst_heartbeat_page_hung(const pst_heartbeat_page *page, uint32_t *rank, int *is_stuck,
                            const char **verdict);
/* What a survivor has reported about a dead rank; the text of pst_heartbeat_note; the text of
 * pst_heartbeat_set_reason. NULL: none. The strings live as long as the page. */
const char *pst_heartbeat_page_dead_report(const pst_heartbeat_page *page, uint32_t rank);
const char *pst_heartbeat_page_note(const pst_heartbeat_page *page);
/* The signal given to pst_heartbeat_stopped; 0: none. */
int pst_heartbeat_page_stopped(const pst_heartbeat_page *page);
const char *pst_heartbeat_page_reason(const pst_heartbeat_page *page);
/* Formats the last instruction of a rank, "F chunk 2 micro-batch 3"; "start-up" before the first
 * instruction. Returns buffer. */
const char *pst_heartbeat_page_where(const pst_heartbeat_page *page, uint32_t rank, char *buffer,
                                     uint32_t bytes);
#endif
