/* The messages of the hang detector: one line that names rank, host, operator, micro-batch, and
 * where the peer is. */
#include "comm/collective/collective.h"
#include "health/hang_parts.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PLACE = 256, ARRIVE_MS = 300 };

static const char *coll_name(uint32_t kind) { return pst_coll_name((pst_coll_kind)kind); }

static const char *where(const pst_hang *h, uint32_t rank, char place[PLACE]) {
    return pst_suspect_where(&h->scene, rank, coll_name, place, PLACE);
}

/* "for 1.23 s (limit 1.10 s = 10 x 10.0 ms + 1 s)". */
static void print_duration(const pst_hang *h, uint32_t rank, uint64_t limit_ns, char *text,
                           uint32_t bytes) {
    uint64_t now = pst_monotonic_ns(), since = h->scene.rank[rank].at.since_ns,
             expected = pst_hang_expected(h, rank);
    double lasted = now > since ? (double)(now - since) * 1e-9 : 0;
    if (!expected)
        snprintf(text, bytes, "for %.2f s (limit %.2f s)", lasted, (double)limit_ns * 1e-9);
    else
        snprintf(text, bytes, "for %.2f s (limit %.2f s = %g x %.4g ms + %g s)", lasted,
                 (double)limit_ns * 1e-9, h->p->config->train.hang_factor, (double)expected * 1e-6,
                 h->p->config->train.hang_slack);
}

/* What the victim does meanwhile. */
static void print_waited(const pst_hang *h, uint64_t limit_ns, char *text, uint32_t bytes) {
    if (!h->heartbeat) snprintf(text, bytes, "waits");
    else if (!h->suspect_ns) snprintf(text, bytes, "is");
    else
        snprintf(text, bytes, "has waited for %.2f s (limit %.2f s)", (double)h->suspect_ns * 1e-9,
                 (double)limit_ns * 1e-9);
}

/* Which collective the victim is in and the culprit is not. */
static void print_skipped(const pst_hang *h, uint32_t victim, char *text, uint32_t bytes) {
    const pst_position_view *of = &h->scene.rank[victim].at;
    if (of->activity == PST_AT_COLLECTIVE && of->n_op == h->suspect.op + 1)
        snprintf(text, bytes, "collective %u (%s of %llu bytes)", of->n_coll,
                 coll_name(of->coll_kind), (unsigned long long)of->coll_bytes);
    else snprintf(text, bytes, "an earlier collective");
}

/* The rank that waits for the lost message. */
static uint32_t waiting_for_lost(const pst_hang *h, uint32_t victim) {
    uint32_t n = h->suspect.n_chain;
    return n > 1 ? h->suspect.chain[n - 2] : victim;
}

void pst_hang_verdict(const pst_hang *h, const pst_hang_accusation *a, char *line, uint32_t bytes) {
    uint32_t culprit = a->culprit, victim = a->victim, waiting = waiting_for_lost(h, victim);
    char its[PLACE], theirs[PLACE], waited[64], since[128], skipped[80];
    where(h, culprit, its);
    where(h, victim, theirs);
    print_waited(h, a->limit_ns, waited, sizeof waited);
    print_skipped(h, victim, skipped, sizeof skipped);
    print_duration(h, culprit, a->limit_ns, since, sizeof since);
    int n = snprintf(line, bytes, "rank %u on %s ", culprit, h->host);
    line += n;
    bytes -= (uint32_t)n;
    switch (a->cause) {
    case PST_HANG_STOPPED:
        snprintf(line, bytes, "was stopped during %s; rank %u %s in %s", its, victim, waited,
                 theirs);
        break;
    case PST_HANG_SILENT:
        snprintf(line, bytes, "stopped responding during %s; rank %u is in %s", its, victim,
                 theirs);
        break;
    case PST_HANG_ASLEEP:
    case PST_HANG_COMPUTES:
        snprintf(line, bytes, "hangs (%s) during %s %s; rank %u waits for it in %s",
                 a->cause == PST_HANG_ASLEEP ? "asleep" : "computing", its, since, victim, theirs);
        break;
    case PST_HANG_LOST:
        snprintf(line, bytes,
                 "lost a message to rank %u: send and receive are both posted, and rank %u %s in "
                 "%s; rank %u is in %s",
                 victim, waiting, waited, waiting == culprit ? its : theirs,
                 waiting == culprit ? victim : culprit, waiting == culprit ? theirs : its);
        break;
    case PST_HANG_LEFT:
        snprintf(line, bytes, "left the job during %s; rank %u %s in %s", its, victim, waited,
                 theirs);
        break;
    case PST_HANG_SKIPPED:
        snprintf(line, bytes, "skipped %s: this rank is in %s, while rank %u %s in %s", skipped,
                 its, victim, waited, theirs);
        break;
    case PST_HANG_DISAGREES:
        snprintf(line, bytes,
                 "is at a different place in the program than rank %u: this rank %s in %s, rank %u "
                 "in %s",
                 victim, waited, its, victim, theirs);
        break;
    case PST_HANG_DEADLOCK:
        snprintf(line, bytes, "is in a deadlock with rank %u: this rank %s in %s, rank %u in %s",
                 victim, waited, its, victim, theirs);
        break;
    }
}

void pst_hang_died(pst_hang *h, uint32_t rank, pst_executor *x) {
    char its[PLACE], theirs[PLACE], line[PST_HANG_LINE];
    pst_suspect s = {.kind = PST_SUSPECT_NOBODY};
    pst_executor_publish_wait(x);
    pst_hang_read(h);
    if (!h->scene.rank[rank].known || !h->scene.rank[h->rank].known) return;
    h->scene.rank[rank].left = 0; /* the page marks a dead rank as having left */
    pst_suspect_find(&h->scene, h->rank, &s);
    int waits = s.kind != PST_SUSPECT_NOBODY && s.culprit == rank && s.victim != rank;
    uint32_t victim = waits ? s.victim : h->rank;
    snprintf(line, sizeof line, "%s; rank %u %s in %s", where(h, rank, its), victim,
             waits ? "waits for it" : "is", where(h, victim, theirs));
    pst_heartbeat_report_dead(h->heartbeat, rank, line);
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* Waits until all ranks have reached the operation of this rank, or ARRIVE_MS have passed. */
static void wait_for_arrival(pst_hang *h, uint32_t rank) {
    for (int ms = 0; ms < ARRIVE_MS; ms += 5) {
        uint32_t behind = 0;
        pst_hang_read(h);
        for (uint32_t r = 0; r < h->scene.n_rank; r++)
            behind += h->at[r] && !h->scene.rank[r].left &&
                      h->scene.rank[r].at.n_op < h->scene.rank[rank].at.n_op;
        if (!behind || !h->heartbeat) return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

/* The sender of a message of the wrong size. In a collective, the message may also belong to
 * another collective. */
static uint32_t sender_of(pst_hang *h, uint32_t rank, uint32_t instr, uint64_t message,
                          pst_suspect *order) {
    uint32_t peer = (uint32_t)(message >> 32) & 0x3fffffff;
    int is_recv = message >> 62 & 1;
    if (instr == PST_NONE) {
        wait_for_arrival(h, rank);
        pst_suspect_order(&h->scene, order);
    } else {
        const pst_instr *in =
            h->scene.job[h->scene.rank[rank].at.train != 0]->list[rank].instr + instr;
        peer = in->peer;
        is_recv = in->opcode == PST_OP_RECV;
    }
    return is_recv ? peer : rank;
}

pst_status pst_hang_mismatch(pst_hang *h, uint32_t rank, uint32_t instr, uint64_t message) {
    char said[200], its[PLACE], mine[PLACE], line[PST_HANG_LINE];
    pst_suspect order = {.kind = PST_SUSPECT_NOBODY};
    snprintf(said, sizeof said, "%s", pst_error());
    pst_hang_read(h);
    uint32_t sender = sender_of(h, rank, instr, message, &order);
    where(h, sender, its);
    where(h, rank, mine);
    if (order.kind == PST_SUSPECT_NOBODY) {
        snprintf(line, sizeof line,
                 "rank %u on %s sent a message of the wrong size during %s: %s; rank %u is in %s",
                 sender, h->host, its, said, rank, mine);
    } else {
        sender = order.culprit;
        h->suspect = order;
        h->suspect_ns = 0;
        pst_hang_cause cause =
            order.kind == PST_SUSPECT_SKIPPED ? PST_HANG_SKIPPED : PST_HANG_DISAGREES;
        const pst_hang_accusation a = {cause, order.culprit, order.victim, h->slack_ns};
        pst_hang_verdict(h, &a, line, sizeof line);
    }
    if (!h->heartbeat) return pst_fail(PST_EPEER, "%s", line);
    pst_heartbeat_accuse(h->heartbeat, sender, 0, line);
    pst_status status = pst_heartbeat_check(h->heartbeat);
    return status == PST_OK ? pst_fail(PST_EPEER, "%s", line) : status;
}

pst_status pst_hang_explain(pst_hang *h, pst_executor *const *x) {
    char line[PST_HANG_LINE];
    for (uint32_t r = 0; r < h->scene.n_rank; r++) pst_executor_publish_wait(x[r]);
    pst_hang_read(h);
    for (uint32_t r = 0; r < h->scene.n_rank; r++) {
        pst_suspect_find(&h->scene, r, &h->suspect);
        if (h->suspect.kind != PST_SUSPECT_LOST) continue;
        const pst_hang_accusation a = {PST_HANG_LOST, h->suspect.culprit, h->suspect.victim, 0};
        pst_hang_verdict(h, &a, line, sizeof line);
        return pst_fail(PST_EPEER, "%s", line);
    }
    return PST_EINTERNAL; /* the message of the executor stays */
}
