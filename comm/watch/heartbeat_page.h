/* The shared page: a header, one line of 64 bytes and one position per rank of the host. Ranks,
 * their heartbeat threads and the launcher write it from different processes, so everything is
 * atomic. */
#ifndef PST_COMM_WATCH_HEARTBEAT_PAGE_H
#define PST_COMM_WATCH_HEARTBEAT_PAGE_H
#include "comm/watch/heartbeat.h"
#include <stdatomic.h>

enum { PAGE_VERDICT = 1024 };
typedef enum { LINE_ABSENT, LINE_ALIVE, LINE_GONE } line_state;
/* FAILED: reported by the rank itself; SILENT: a peer saw no ticks; HUNG: a peer accused the rank,
 * see `verdict`; DEAD: the launcher saw the process end. */
typedef enum { FAULT_NONE, FAULT_FAILED, FAULT_SILENT, FAULT_HUNG, FAULT_DEAD } fault_kind;

typedef struct {
    _Atomic uint64_t ticks;
    _Atomic uint32_t state;
    uint32_t rank;           /* rank in the job; written before state becomes ALIVE */
    volatile uint64_t instr; /* packed; PAGE_NO_INSTR before the first instruction */
    uint8_t pad[40];
} page_line;

struct pst_heartbeat_page {
    _Atomic uint64_t fault; /* fault_kind << 32 | line: the first fault, which all ranks report */
    /* random number by which another process verifies the page that it has mapped (heartbeat.c) */
    uint64_t nonce[2];
    uint32_t n;
    _Atomic uint32_t accused; /* 1: a rank writes `verdict`, or has written it */
    uint32_t is_stuck;        /* 1: the accused rank will not exit by itself */
    /* line + 1 of a dead rank: `verdict` says where it was; 0: no report */
    _Atomic uint32_t dead_report;
    _Atomic uint32_t noted; /* 1: `note` is complete */
    /* a rank that exits because of another one writes `reason` (1), or has written it (2) */
    _Atomic uint32_t reason_state;
    _Atomic uint32_t stopped; /* the signal after which the ranks have saved and exit; 0: none */
    uint8_t pad[12];
    char reason[PAGE_VERDICT];
    char verdict[PAGE_VERDICT]; /* complete once fault is HUNG, or dead_report is not 0 */
    char note[PAGE_VERDICT];
    page_line line[]; /* [n] by rank on this host; the [n] positions follow */
};
_Static_assert(sizeof(page_line) == 64 && sizeof(pst_heartbeat_page) % 64 == 0,
               "must be multiples of a cache line");

#define PAGE_NO_INSTR UINT64_MAX

size_t pst_page_bytes(uint32_t n);
/* Maps page `index` of a file of pages of n ranks; NULL: failed. */
pst_heartbeat_page *pst_page_map(int fd, uint32_t n, uint32_t index);
pst_position *pst_page_position(pst_heartbeat_page *page, uint32_t line);
/* Records a fault if there is none yet. A DEAD fault also replaces a fault recorded by a rank, and
 * HUNG replaces SILENT. */
void pst_page_fault(pst_heartbeat_page *page, fault_kind kind, uint32_t line);
#endif
