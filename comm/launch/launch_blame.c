/* Finds the culprit of a job's end, and prints it (launch_parts.h). */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include <stdio.h>
#include <string.h>

/* The number of the rank in the job's layout if known, else in the order of launch. */
static uint32_t rank_of(const launcher *l, uint32_t line) {
    uint32_t rank;
    return pst_heartbeat_page_rank(l->page, line, &rank) ? rank : l->first + line;
}

/* Prints "penstock: rank 2 on HOST was killed by signal 9 during F of h.3.attn, micro-batch 3, step
 * 14; rank 3 waits for it in ..." in one write; with the last instruction alone when no other rank
 * reported more. */
static void say(const launcher *l, uint32_t rank, const char *what) {
    char last[64];
    const char *told = pst_heartbeat_page_dead_report(l->page, rank);
    pst_launch_print("rank %u on %s %s during %s", rank_of(l, rank), l->host, what,
                     told ? told : pst_heartbeat_page_where(l->page, rank, last, sizeof last));
}

void pst_launch_print_culprit(launcher *l, int at_last) {
    if (!*l->what || (!at_last && !pst_heartbeat_page_dead_report(l->page, l->culprit))) return;
    say(l, l->culprit, l->what);
    *l->what = 0;
}

void pst_launch_begin_end(launcher *l) {
    if (l->ending) return;
    l->ending = 1;
    l->kill_ns = pst_monotonic_ns() + l->grace_ns;
}

void pst_launch_blame(launcher *l, certainty how_sure, uint32_t rank, int exit_status,
                      const char *what) {
    /* a failed rank may have accused another one; that accusation stays */
    if (how_sure == CULPRIT) pst_heartbeat_page_mark_dead(l->page, rank);
    else pst_page_fault(l->page, FAULT_FAILED, rank);
    pst_launch_begin_end(l);
    if (l->blame >= how_sure) return;
    l->blame = how_sure;
    l->culprit = rank;
    l->exit_status = exit_status;
    if (how_sure == CULPRIT && what) snprintf(l->what, sizeof l->what, "%s", what);
}

/* Reads the ranks' accusation. A stuck rank does not exit by itself: when it is the last one, it is
 * killed. */
void pst_launch_read_verdict(launcher *l) {
    uint32_t rank;
    int is_stuck;
    const char *verdict;
    if (!pst_heartbeat_page_hung(l->page, &rank, &is_stuck, &verdict)) return;
    if (pst_launch_elastic_accuse(l, rank, verdict)) return;
    if (l->blame < CULPRIT) {
        l->blame = CULPRIT;
        l->culprit = rank;
        l->exit_status = 3;
        pst_launch_print("%s", verdict);
        pst_launch_begin_end(l);
    }
    if (is_stuck && l->live == 1 && l->rank[rank].pid && !l->rank[rank].killed_by_us)
        l->kill_ns = 0;
}

/* All ranks have ended without a clear culprit: perhaps the ranks found one that stopped
 * responding. With several hosts, a rank here may have reacted to a rank of another host: the
 * starting launcher decides. */
void pst_launch_decide_blame(launcher *l) {
    uint32_t silent;
    pst_launch_print_culprit(l, 1);
    if (l->blame != FOLLOWER && l->blame != ABORTED) return;
    const char *why = pst_heartbeat_page_reason(l->page);
    if (pst_heartbeat_page_silent(l->page, &silent))
        say(l, l->culprit = silent, "stopped responding");
    else if (l->hosts && why) pst_launch_host_report("followed %s", why);
    else if (l->hosts && l->blame == FOLLOWER)
        pst_launch_host_report("followed rank %u on %s exited with status 3",
                               rank_of(l, l->culprit), l->host);
    else if (l->blame == ABORTED) say(l, l->culprit, "was killed by signal 6");
    else say(l, l->culprit, "exited with status 3");
}
