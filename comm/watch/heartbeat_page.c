/* See heartbeat_page.h; also the launcher's side of heartbeat.h. */
#include "comm/watch/heartbeat_page.h"
#include "base/opcode.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

size_t pst_page_bytes(uint32_t n) {
    size_t bytes = sizeof(pst_heartbeat_page) + n * (sizeof(page_line) + sizeof(pst_position));
    return (bytes + 4095) & ~(size_t)4095;
}

pst_position *pst_page_position(pst_heartbeat_page *page, uint32_t line) {
    return (pst_position *)(page->line + page->n) + line;
}

pst_heartbeat_page *pst_page_map(int fd, uint32_t n, uint32_t index) {
    const size_t bytes = pst_page_bytes(n);
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(index * bytes));
    return mem == MAP_FAILED ? NULL : mem;
}

static void set_lines(pst_heartbeat_page *page, uint32_t n) {
    page->n = n;
    for (uint32_t i = 0; i < n; i++) {
        page->line[i].rank = i;
        page->line[i].instr = PAGE_NO_INSTR;
    }
}

void pst_page_fault(pst_heartbeat_page *page, fault_kind kind, uint32_t line) {
    uint64_t mine = (uint64_t)kind << 32 | line, seen = 0;
    while (!atomic_compare_exchange_weak(&page->fault, &seen, mine))
        if (seen && (kind != FAULT_DEAD || seen >> 32 == FAULT_DEAD) &&
            (kind != FAULT_HUNG || seen >> 32 != FAULT_SILENT))
            return;
}

pst_status pst_heartbeat_page_add(int fd, uint32_t n, uint32_t index, pst_heartbeat_page **page) {
    const off_t end = (off_t)((index + (size_t)1) * pst_page_bytes(n));
    pst_heartbeat_page *p = ftruncate(fd, end) ? NULL : pst_page_map(fd, n, index);
    if (!p) return pst_fail(PST_ENOMEM, "cannot map the shared page of the heartbeat: %m");
    set_lines(p, n);
    *page = p;
    return PST_OK;
}

pst_status pst_heartbeat_page_open(uint32_t n, int *fd, pst_heartbeat_page **page) {
    int file = memfd_create("penstock-heartbeat", MFD_CLOEXEC);
    if (file < 0) return pst_fail(PST_ENOMEM, "cannot create the shared page of the heartbeat: %m");
    pst_status status = pst_heartbeat_page_add(file, n, 0, page);
    if (status == PST_OK) *fd = file;
    else close(file);
    return status;
}

void pst_heartbeat_page_close(pst_heartbeat_page *page) {
    if (page) munmap(page, pst_page_bytes(page->n));
}

void pst_heartbeat_page_mark_dead(pst_heartbeat_page *page, uint32_t rank) {
    atomic_store(&page->line[rank].state, LINE_GONE);
    pst_page_fault(page, FAULT_DEAD, rank);
}

void pst_heartbeat_page_mark_gone(pst_heartbeat_page *page, uint32_t rank) {
    atomic_store(&page->line[rank].state, LINE_GONE);
}

int pst_heartbeat_page_alive(const pst_heartbeat_page *page, uint32_t rank) {
    return atomic_load(&page->line[rank].state) == LINE_ALIVE;
}

int pst_heartbeat_page_absent(const pst_heartbeat_page *page, uint32_t rank) {
    return atomic_load(&page->line[rank].state) == LINE_ABSENT;
}

int pst_heartbeat_page_rank(const pst_heartbeat_page *page, uint32_t rank, uint32_t *number) {
    *number = page->line[rank].rank;
    return !pst_heartbeat_page_absent(page, rank);
}

int pst_heartbeat_page_started(const pst_heartbeat_page *page, uint32_t rank) {
    return page->line[rank].instr != PAGE_NO_INSTR;
}

int pst_heartbeat_page_silent(const pst_heartbeat_page *page, uint32_t *rank) {
    uint64_t fault = atomic_load(&page->fault);
    if (fault >> 32 != FAULT_SILENT || (uint32_t)fault >= page->n) return 0;
    *rank = (uint32_t)fault;
    return 1;
}

int pst_heartbeat_page_hung(const pst_heartbeat_page *page, uint32_t *rank, int *is_stuck,
                            const char **verdict) {
    uint64_t fault = atomic_load(&page->fault);
    if (fault >> 32 != FAULT_HUNG || (uint32_t)fault >= page->n) return 0;
    *rank = (uint32_t)fault;
    *is_stuck = (int)page->is_stuck;
    *verdict = page->verdict;
    return 1;
}

const char *pst_heartbeat_page_dead_report(const pst_heartbeat_page *page, uint32_t rank) {
    return atomic_load(&page->dead_report) == rank + 1 ? page->verdict : NULL;
}

int pst_heartbeat_page_stopped(const pst_heartbeat_page *page) {
    return (int)atomic_load(&page->stopped);
}

const char *pst_heartbeat_page_note(const pst_heartbeat_page *page) {
    return atomic_load(&page->noted) ? page->note : NULL;
}

const char *pst_heartbeat_page_reason(const pst_heartbeat_page *page) {
    return atomic_load(&page->reason_state) == 2 ? page->reason : NULL;
}

const char *pst_heartbeat_page_where(const pst_heartbeat_page *page, uint32_t rank, char *buffer,
                                     uint32_t bytes) {
    uint64_t instr = page->line[rank].instr;
    uint32_t opcode = (uint32_t)(instr >> 56), chunk = instr >> 32 & 0xffffff,
             micro = (uint32_t)instr;
    const char *name = pst_opcode_name((pst_opcode)opcode);
    if (instr == PAGE_NO_INSTR) snprintf(buffer, bytes, "start-up");
    else if (instr == PST_HEARTBEAT_STORE) snprintf(buffer, bytes, "key-value store");
    else if (opcode >= PST_OP_COUNT)
        snprintf(buffer, bytes, "instruction %016llx", (unsigned long long)instr);
    else if (opcode >= PST_OP_REDUCE) snprintf(buffer, bytes, "%s", name);
    else snprintf(buffer, bytes, "%s chunk %u micro-batch %u", name, chunk, micro);
    return buffer;
}
