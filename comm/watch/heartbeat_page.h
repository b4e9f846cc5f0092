/* The shared page itself: a header, one line of 64 bytes and one position per rank of the host.
 * Written by the ranks, their heartbeat threads and the launcher, in different processes; so
 * everything is atomic. */
#ifndef PST_COMM_WATCH_HEARTBEAT_PAGE_H
#define PST_COMM_WATCH_HEARTBEAT_PAGE_H
#include "comm/watch/heartbeat.h"
#include <stdatomic.h>

enum { PAGE_VERDICT = 1024 };
typedef enum { LINE_ABSENT, LINE_ALIVE, LINE_GONE } line_state;
/* FAILED: the rank said so; SILENT: another rank found out; HUNG: likewise, `verdict` says why;
 * DEAD: the launcher saw it end. */
typedef enum { FAULT_NONE, FAULT_FAILED, FAULT_SILENT, FAULT_HUNG, FAULT_DEAD } fault_kind;

typedef struct {
    _Atomic uint64_t ticks;
    _Atomic uint32_t state;
    uint32_t rank;           /* in the job; written before state becomes ALIVE */
    volatile uint64_t instr; /* packed; PAGE_NO_INSTR before the first */
    uint8_t pad[40];
} page_line;

struct pst_heartbeat_page {
    _Atomic uint64_t fault; /* fault_kind << 32 | line: the first one, for everybody to name */
    uint64_t word[2];       /* tells pages apart where one is looked for (heartbeat.c) */
    uint32_t n;
    _Atomic uint32_t accused; /* a rank writes the verdict, or has */
    uint32_t is_stuck;        /* the rank it names will not leave by itself */
    /* line + 1 of a dead rank: `verdict` says where it was; 0: nobody has told */
    _Atomic uint32_t told;
    _Atomic uint32_t noted; /* `note` is complete */
    /* a rank that has followed another one writes `why` (1), or has (2) */
    _Atomic uint32_t excused;
    _Atomic uint32_t stopped; /* the signal after which the ranks have saved and leave; 0: none */
    uint8_t pad[12];
    char why[PAGE_VERDICT];
    char verdict[PAGE_VERDICT]; /* complete once fault says HUNG, or told is not 0 */
    char note[PAGE_VERDICT];
    page_line line[]; /* [n], by rank on this host; their positions follow */
};
_Static_assert(sizeof(page_line) == 64 && sizeof(pst_heartbeat_page) % 64 == 0,
               "cache lines of their own");

#define PAGE_NO_INSTR UINT64_MAX

size_t pst_page_bytes(uint32_t n);
/* Maps a descriptor of that size. NULL when that fails. */
pst_heartbeat_page *pst_page_map(int fd, uint32_t n);
pst_position *pst_page_position(pst_heartbeat_page *page, uint32_t line);
/* The first fault stays, but what the launcher saw outweighs what a rank concluded, and a verdict
 * mere silence. */
void pst_page_fault(pst_heartbeat_page *page, fault_kind kind, uint32_t line);
#endif
