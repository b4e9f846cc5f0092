/* Heartbeat: a page shared by the ranks of a host, one line per rank with its tick count, state and
 * last instruction. A thread of its own ticks and watches; it counts its own ticks, so that
 * stopping the whole job (Ctrl-Z) is no fault. */
#ifndef PST_COMM_WATCH_HEARTBEAT_H
#define PST_COMM_WATCH_HEARTBEAT_H
#include "base/position.h"
#include "base/world.h"

typedef struct pst_heartbeat pst_heartbeat;
enum {
    PST_HEARTBEAT_MS = 50,
    PST_HEARTBEAT_MISSES = 40
}; /* a peer silent for 40 of our ticks (2 s) is dead */

/* Collective over the ranks of this host (uses put/get/fence). The page is a file without a name:
 * the others open it through the first rank's /proc entry, as its user may. Our launcher passes its
 * own page in PENSTOCK_HEARTBEAT_FD. */
pst_status pst_heartbeat_open(pst_world *world, pst_heartbeat **heartbeat);
void pst_heartbeat_close(pst_heartbeat *h); /* marks this rank as gone in good order */
/* Where the executor writes its packed last instruction (opcode << 56 | chunk << 32 | micro). */
volatile uint64_t *pst_heartbeat_instr(pst_heartbeat *h);
/* OK while all peers live; EPEER names the first dead one: rank, host, last instruction; or this
 * rank itself, when the others have given it up. Any thread; cheap. */
pst_status pst_heartbeat_check(pst_heartbeat *h);
/* The ranks that share the page: those of this host. */
uint32_t pst_heartbeat_ranks(const pst_heartbeat *h);
/* From now on the heartbeat's thread calls this at every tick (PST_HEARTBEAT_MS). NULL: it does not
 * any more, nor is a call under way when this returns. */
void pst_heartbeat_on_tick(pst_heartbeat *h, void (*tick)(void *arg), void *arg);
/* A rank of the job as the others see it: NULL when it is on another host. */
pst_position *pst_heartbeat_position(pst_heartbeat *h, uint32_t rank);
/* 1 when that rank has left in good order. */
int pst_heartbeat_left(pst_heartbeat *h, uint32_t rank);
/* 1 when another rank was found silent, and which. */
int pst_heartbeat_silent(pst_heartbeat *h, uint32_t *rank);
/* This rank has found out who holds the job up: everybody's next check says `verdict` (which names
 * the rank), unless another fault was there first. is_stuck: the rank will not leave by itself. */
void pst_heartbeat_accuse(pst_heartbeat *h, uint32_t rank, int is_stuck, const char *verdict);
/* 1 when another rank has, and is the one to say it. */
int pst_heartbeat_accused(pst_heartbeat *h);
/* 1 when the launcher has seen another rank die, and which; then a survivor tells once where that
 * one was and who waits for it, for the launcher to say. */
int pst_heartbeat_dead(pst_heartbeat *h, uint32_t *rank);
void pst_heartbeat_tell(pst_heartbeat *h, uint32_t rank, const char *where);
/* What the launcher adds should a rank or link fail from now on. Of one rank, once. */
void pst_heartbeat_note(pst_heartbeat *h, const char *note);
/* The job was saved after this signal, and its ranks leave with the status that belongs to it
 * (launch.h). */
void pst_heartbeat_stopped(pst_heartbeat *h, int signal);
/* Why this rank leaves with EPEER: for the launcher to say when it knows nothing better. The first
 * one stays. */
void pst_heartbeat_excuse(pst_heartbeat *h, const char *why);
/* Our own failure, for the others to name: they see it at their next check. */
void pst_heartbeat_fail(pst_heartbeat *h);

/* Launcher's side: an anonymous page (memfd) for n ranks, inherited by the ranks. */
typedef struct pst_heartbeat_page pst_heartbeat_page;
pst_status pst_heartbeat_page_open(uint32_t n, int *fd, pst_heartbeat_page **page);
void pst_heartbeat_page_close(pst_heartbeat_page *page);
void pst_heartbeat_page_mark_dead(pst_heartbeat_page *page, uint32_t rank);
/* A rank that went without a word, as its own heartbeat would have said. Not for ranks that failed:
 * keep theirs. */
void pst_heartbeat_page_mark_gone(pst_heartbeat_page *page, uint32_t rank);
/* 1 when a rank runs: it has opened its heartbeat and has neither closed it nor been marked. */
int pst_heartbeat_page_alive(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when it never opened one. */
int pst_heartbeat_page_absent(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when it has opened one: *number is its rank in the job. */
int pst_heartbeat_page_rank(const pst_heartbeat_page *page, uint32_t rank, uint32_t *number);
/* 1 when it has begun an instruction. */
int pst_heartbeat_page_started(const pst_heartbeat_page *page, uint32_t rank);
/* 1 when a rank has found another one silent, and which. */
int pst_heartbeat_page_silent(const pst_heartbeat_page *page, uint32_t *rank);
/* 1 when a rank was accused (pst_heartbeat_accuse): which, and why; *verdict lives as long as the
 * page. */
int pst_heartbeat_page_hung(const pst_heartbeat_page *page, uint32_t *rank, int *is_stuck,
                            const char **verdict);
/* What survivors have told of a dead rank, what a rank has noted, and why the first one has left
 * (above); NULL: nothing. They live as long as the page. */
const char *pst_heartbeat_page_told(const pst_heartbeat_page *page, uint32_t rank);
const char *pst_heartbeat_page_note(const pst_heartbeat_page *page);
/* The signal that a rank has named with pst_heartbeat_stopped; 0: none has. */
int pst_heartbeat_page_stopped(const pst_heartbeat_page *page);
const char *pst_heartbeat_page_why(const pst_heartbeat_page *page);
/* "F chunk 2 micro-batch 3" of a rank, "its start" when it has run nothing yet. Returns buffer. */
const char *pst_heartbeat_page_where(const pst_heartbeat_page *page, uint32_t rank, char *buffer,
                                     uint32_t bytes);
#endif
