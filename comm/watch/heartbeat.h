/* Heartbeat: a page that the ranks of a host share, with one line per rank: tick count, state and
 * last instruction. A separate thread ticks and watches the other lines. It counts time in its own
 * ticks, so stopping the whole job (Ctrl-Z) is not taken for a failure. */
#ifndef PST_COMM_WATCH_HEARTBEAT_H
#define PST_COMM_WATCH_HEARTBEAT_H
#include "base/position.h"
#include "base/world.h"

typedef struct pst_heartbeat pst_heartbeat;
enum {
    PST_HEARTBEAT_MS = 50,
    PST_HEARTBEAT_MISSES = 40
}; /* a peer without a tick for 40 of our own ticks (2 s) is dead */

/* Collective over the ranks of this host (uses put/get/fence). The page is an anonymous file
 * (memfd): the others open it through the /proc entry of the host's first rank, which only the same
 * user can. Our launcher passes its own page in PENSTOCK_HEARTBEAT_FD. */
pst_status pst_heartbeat_open(pst_world *world, pst_heartbeat **heartbeat);
void pst_heartbeat_close(pst_heartbeat *h); /* marks a normal exit of this rank */
/* Where the executor writes its last instruction, packed (opcode << 56 | chunk << 32 |
 * micro-batch). */
volatile uint64_t *pst_heartbeat_instr(pst_heartbeat *h);
/* OK while all peers live. EPEER names the first dead one: rank, host, last instruction; or this
 * rank itself, if the others have declared it dead. Any thread; cheap. */
pst_status pst_heartbeat_check(pst_heartbeat *h);
/* The number of ranks that share the page: those of this host. */
uint32_t pst_heartbeat_ranks(const pst_heartbeat *h);
/* From now on the heartbeat's thread calls `tick` at every tick (PST_HEARTBEAT_MS). NULL: no
 * longer; when this function returns, no call is running. */
void pst_heartbeat_on_tick(pst_heartbeat *h, void (*tick)(void *arg), void *arg);
/* The published position of a rank of the job; NULL when it is on another host. */
pst_position *pst_heartbeat_position(pst_heartbeat *h, uint32_t rank);
/* 1 when that rank has exited normally. */
int pst_heartbeat_left(pst_heartbeat *h, uint32_t rank);
/* 1 when another rank has stopped ticking; *rank says which. */
int pst_heartbeat_silent(pst_heartbeat *h, uint32_t *rank);
/* This rank accuses another one of holding up the job: every rank's next check returns `verdict`
 * (which names the culprit), unless an earlier fault is recorded. is_stuck: the culprit will not
 * exit by itself. */
void pst_heartbeat_accuse(pst_heartbeat *h, uint32_t rank, int is_stuck, const char *verdict);
/* 1 when another rank has accused one; that other rank prints the verdict. */
int pst_heartbeat_accused(pst_heartbeat *h);
/* 1 when the launcher has seen another rank die; *rank says which. One survivor then reports where
 * the dead rank was and who waits for it; the launcher prints it. */
int pst_heartbeat_dead(pst_heartbeat *h, uint32_t *rank);
void pst_heartbeat_report_dead(pst_heartbeat *h, uint32_t rank, const char *where);
/* A line that the launcher prints after a failure of a rank or link. From one rank only; later
 * calls replace it. */
void pst_heartbeat_note(pst_heartbeat *h, const char *note);
/* The job was saved because of this signal, and its ranks exit with the status for it
 * (launch.h). */
void pst_heartbeat_stopped(pst_heartbeat *h, int signal);
/* Why this rank exits with EPEER; the launcher prints it if it knows no better reason. The first
 * one stays. */
void pst_heartbeat_set_reason(pst_heartbeat *h, const char *why);
/* This rank has failed: the others see it at their next check. */
void pst_heartbeat_fail(pst_heartbeat *h);

/* The launcher's side: an anonymous page (memfd) for n ranks, which inherit it. `rank` is the index
 * of a line. */
typedef struct pst_heartbeat_page pst_heartbeat_page;
pst_status pst_heartbeat_page_open(uint32_t n, int *fd, pst_heartbeat_page **page);
void pst_heartbeat_page_close(pst_heartbeat_page *page);
void pst_heartbeat_page_mark_dead(pst_heartbeat_page *page, uint32_t rank);
/* Marks a rank that exited without closing its heartbeat. Not for ranks that failed: their line
 * stays as it is. */
void pst_heartbeat_page_mark_gone(pst_heartbeat_page *page, uint32_t rank);
/* 1 when a rank runs: its heartbeat is open, neither closed nor marked. */
int pst_heartbeat_page_alive(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when it has never opened its heartbeat. */
int pst_heartbeat_page_absent(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when it has opened its heartbeat: *number is its rank in the job. */
int pst_heartbeat_page_rank(const pst_heartbeat_page *page, uint32_t rank, uint32_t *number);
/* 1 when it has begun an instruction. */
int pst_heartbeat_page_started(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when a rank was found silent; *rank says which. */
int pst_heartbeat_page_silent(const pst_heartbeat_page *page, uint32_t *rank);
/* 1 when a rank was accused (pst_heartbeat_accuse): which one, and why; *verdict lives as long as
 * the page. */
int pst_heartbeat_page_hung(const pst_heartbeat_page *page, uint32_t *rank, int *is_stuck,
                            const char **verdict);
/* What a survivor reported about a dead rank; the note of a rank; the reason why the first rank
 * left. NULL: none. They live as long as the page. */
const char *pst_heartbeat_page_dead_report(const pst_heartbeat_page *page, uint32_t rank);
const char *pst_heartbeat_page_note(const pst_heartbeat_page *page);
/* The signal given to pst_heartbeat_stopped; 0: none. */
int pst_heartbeat_page_stopped(const pst_heartbeat_page *page);
const char *pst_heartbeat_page_reason(const pst_heartbeat_page *page);
/* "F chunk 2 micro-batch 3" of a rank, "start-up" before its first instruction. Returns buffer. */
const char *pst_heartbeat_page_where(const pst_heartbeat_page *page, uint32_t rank, char *buffer,
                                     uint32_t bytes);
#endif
