/* See suspect.h. */
#include "pipeline/execute/suspect.h"

/* What a rank waits for: a message (is_recv: from peer, else to peer); or, in an exchange, that
 * peer arrives there or, if all have arrived, a message of peer. */
typedef struct {
    int is_recv, is_exchange, all_there;
    uint32_t peer, instr; /* instr: PST_NONE in a collective */
    uint64_t message;     /* in a collective: the matching message as its peer posts it */
} awaited;

static const pst_job *job_of(const pst_suspect_scene *s, uint32_t rank) {
    return s->job[s->rank[rank].at.train != 0];
}

static uint64_t mix(uint64_t fingerprint, uint64_t word) {
    return (fingerprint ^ word) * UINT64_C(0x9e3779b97f4a7c15) + (word >> 7);
}

static int in_run(const pst_position_view *at) {
    return at->activity == PST_AT_WAIT || at->activity == PST_AT_COMPUTE ||
           at->activity == PST_AT_EXCHANGE;
}

/* The first rank of the rank's tensor group; *n: its size. */
static uint32_t group_of(const pst_suspect_scene *s, uint32_t rank, uint32_t *n) {
    const pst_job *job = s->job[1];
    *n = s->group ? s->group : 1;
    if (!job || !job->grid.tensor_before) return rank / *n * *n;
    *n = pst_grid_degree(job->grid, pst_job_stage(job, rank));
    return rank - pst_grid_at(job->grid, rank).tensor;
}

/* A rank of the tensor group that has not yet reached the exchange of `rank`; PST_NONE: all have.
 */
static uint32_t behind(const pst_suspect_scene *s, uint32_t rank) {
    const pst_position_view *me = &s->rank[rank].at;
    uint32_t n, first = group_of(s, rank, &n);
    for (uint32_t r = first; r < first + n && r < s->n_rank; r++) {
        const pst_position_view *at = &s->rank[r].at;
        if (r == rank) continue;
        if (!s->rank[r].known || at->n_run < me->n_run || s->rank[r].left) return r;
        if (at->n_run > me->n_run || !in_run(at))
            continue; /* it has finished that run or is past it */
        if (at->instr < me->instr || (at->instr == me->instr && at->activity == PST_AT_WAIT))
            return r;
        if (at->instr == me->instr && at->step < me->step) return r;
    }
    return PST_NONE;
}

/* Sets *a to the message or collective for which a rank waits; returns 0 if that is unknown. */
static int awaits(const pst_suspect_scene *s, uint32_t rank, awaited *a) {
    const pst_position_view *at = &s->rank[rank].at;
    if (at->activity == PST_AT_COLLECTIVE) {
        if (!at->coll_wait) return 0;
        uint32_t peer = (uint32_t)(at->coll_wait >> 32) & 0x3fffffff;
        int is_recv = at->coll_wait >> 62 & 1;
        *a = (awaited){is_recv,  0,
                       0,        peer,
                       PST_NONE, pst_position_message(!is_recv, rank, (uint32_t)at->coll_wait)};
        return peer < s->n_rank;
    }
    if (at->activity == PST_AT_EXCHANGE) {
        uint32_t late = behind(s, rank), n, first = group_of(s, rank, &n);
        *a = (awaited){1, 1, late == PST_NONE, late, PST_NONE, 0};
        if (a->all_there) a->peer = first + (rank - first + 1) % n;
        return a->peer != rank;
    }
    const pst_job *job = job_of(s, rank);
    if (at->activity != PST_AT_WAIT || !job || at->waits_for >= job->list[rank].n_instr) return 0;
    const pst_instr *in = job->list[rank].instr + at->waits_for;
    *a = (awaited){in->opcode == PST_OP_RECV, 0, 0, in->peer, at->waits_for, 0};
    return in->queue != PST_Q_COMPUTE && in->peer < s->n_rank;
}

/* Index of the matching SEND or RECV in the peer's list. */
static uint32_t partner(const pst_job *job, uint32_t rank, uint32_t instr) {
    const pst_instr *in = job->list[rank].instr + instr;
    const pst_instr_list *list = job->list + in->peer;
    uint8_t wanted = in->opcode == PST_OP_SEND ? PST_OP_RECV : PST_OP_SEND;
    uint32_t i = 0;
    while (i < list->n_instr &&
           (list->instr[i].opcode != wanted || list->instr[i].peer != rank ||
            list->instr[i].channel != in->channel || list->instr[i].seq != in->seq))
        i++;
    return i;
}

/* Asynchronous updates: whether these two are a server and another rank, whose lists are of steps
 * that cannot be compared. */
static int runs_freely(const pst_job *job, uint32_t a, uint32_t b) {
    return job && job->async && (pst_job_is_server(job, a) || pst_job_is_server(job, b));
}

/* Whether the peer has posted its end of what `rank` waits for. */
static int peer_posted(const pst_suspect_scene *s, uint32_t rank, const awaited *a) {
    const pst_position_view *me = &s->rank[rank].at, *at = &s->rank[a->peer].at;
    if (a->is_exchange) return a->all_there;
    if (a->instr == PST_NONE) {
        uint64_t first =
            at->n_coll_post > PST_POSITION_POSTS ? at->n_coll_post - PST_POSITION_POSTS : 0;
        for (uint64_t i = first; i < at->n_coll_post; i++)
            if (at->coll_post[i % PST_POSITION_POSTS] == a->message) return 1;
        return at->n_coll > me->n_coll + 1; /* posted too long ago to be in the list */
    }
    if (runs_freely(job_of(s, rank), rank, a->peer)) return 0;
    if (at->n_run != me->n_run) return at->n_run > me->n_run;
    if (at->train != me->train) return 0; /* its position is being updated */
    if (!in_run(at)) return 1;            /* its list is finished */
    return partner(job_of(s, rank), rank, a->instr) < (a->is_recv ? at->sent : at->received);
}

/* --- logs of lists and collectives ------------------------------------------------------------ */

static uint64_t log_at(const pst_position_view *at, uint64_t op) {
    return at->log[op % PST_POSITION_LOG];
}

static uint64_t log_begin(const pst_position_view *at) {
    return at->n_op > PST_POSITION_LOG ? at->n_op - PST_POSITION_LOG : 0;
}

/* The first list or collective in which two ranks differ; UINT64_MAX: none that both have started
 * and still have in their logs. */
static uint64_t first_difference(const pst_position_view *a, const pst_position_view *b) {
    uint64_t op = log_begin(a) > log_begin(b) ? log_begin(a) : log_begin(b);
    for (; op < a->n_op && op < b->n_op; op++)
        if (log_at(a, op) != log_at(b, op)) return op;
    return UINT64_MAX;
}

static int has_begun(const pst_suspect_rank *r, uint64_t op) {
    return r->known && op >= log_begin(&r->at) && op < r->at.n_op;
}

static uint32_t count_of(const pst_suspect_scene *s, uint64_t op, uint64_t word) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->n_rank; r++)
        n += has_begun(&s->rank[r], op) && log_at(&s->rank[r].at, op) == word;
    return n;
}

/* How often `word` came after the `context` entries before `op`, earlier in this rank's log. */
static uint32_t count_before(const pst_position_view *at, uint64_t op, uint32_t context,
                             uint64_t word) {
    uint32_t n = 0;
    for (uint64_t i = log_begin(at) + context; i < op; i++) {
        uint32_t k = 1;
        while (k <= context && log_at(at, i - k) == log_at(at, op - k)) k++;
        n += k > context && log_at(at, i) == word;
    }
    return n;
}

/* Of two different entries at the same place, which one is out of order? The one that never
 * followed the same entries before, if the other one did. Without such history: a list where the
 * other rank has a collective, because a collective was skipped; the later line in the same
 * function; a function other than that of the entry before. 0: a, 1: b, -1: unknown. */
static int out_of_order(const pst_position_view *at, uint64_t op, uint64_t a, uint64_t b) {
    for (uint32_t context = 4; context > 0; context--) {
        if (op < log_begin(at) + context) continue;
        uint32_t of_a = count_before(at, op, context, a), of_b = count_before(at, op, context, b);
        if (!of_a != !of_b) return of_a != 0;
    }
    if ((a <= PST_OP_LIST_TRAIN) != (b <= PST_OP_LIST_TRAIN)) return b <= PST_OP_LIST_TRAIN;
    if (a >> 32 == b >> 32) return b > a;
    uint64_t before = op > log_begin(at) ? log_at(at, op - 1) >> 32 : 0;
    if (before == a >> 32) return 1;
    return before == b >> 32 ? 0 : -1;
}

static uint32_t who_has(const pst_suspect_scene *s, uint64_t op, uint64_t word) {
    uint32_t r = 0;
    while (!has_begun(&s->rank[r], op) || log_at(&s->rank[r].at, op) != word) r++;
    return r;
}

uint32_t pst_suspect_order(const pst_suspect_scene *s, pst_suspect *suspect) {
    uint64_t first = UINT64_MAX;
    uint32_t pair[2] = {PST_NONE, PST_NONE};
    for (uint32_t i = 0; i < s->n_rank; i++)
        for (uint32_t k = i + 1; k < s->n_rank; k++) {
            uint64_t op = s->rank[i].known && s->rank[k].known
                              ? first_difference(&s->rank[i].at, &s->rank[k].at)
                              : first;
            if (op < first) {
                first = op;
                pair[0] = i;
                pair[1] = k;
            }
        }
    if (first == UINT64_MAX) return PST_NONE;
    uint64_t word[2] = {log_at(&s->rank[pair[0]].at, first), log_at(&s->rank[pair[1]].at, first)};
    uint32_t n[2] = {count_of(s, first, word[0]), count_of(s, first, word[1])};
    int odd =
        n[0] == n[1] ? out_of_order(&s->rank[pair[0]].at, first, word[0], word[1]) : n[1] < n[0];
    suspect->kind = odd < 0 ? PST_SUSPECT_DISAGREE : PST_SUSPECT_SKIPPED;
    suspect->culprit = who_has(s, first, word[odd != 0]);
    suspect->victim = who_has(s, first, word[odd == 0]);
    suspect->op = first;
    return suspect->culprit;
}

/* --- following the chain of waits ------------------------------------------------------------- */

static int in_chain(const pst_suspect *p, uint32_t rank) {
    for (uint32_t i = 0; i < p->n_chain; i++)
        if (p->chain[i] == rank) return 1;
    return 0;
}

static int append(pst_suspect *p, uint32_t rank) {
    if (p->n_chain == PST_SUSPECT_CHAIN) return 0;
    p->chain[p->n_chain++] = rank;
    return 1;
}

static void accuse(pst_suspect *p, pst_suspect_kind kind, uint32_t culprit, uint32_t victim) {
    p->kind = kind;
    p->culprit = culprit;
    p->victim = victim;
    p->fingerprint = mix(mix(mix(p->fingerprint, kind), culprit), victim);
}

/* Follows one wait, from `rank` to its peer. Returns the rank to continue with; PST_NONE: done. */
static uint32_t follow(const pst_suspect_scene *s, uint32_t rank, pst_suspect *p) {
    awaited a;
    p->fingerprint = mix(mix(p->fingerprint, rank), s->rank[rank].at.moves);
    if (!awaits(s, rank, &a) || !s->rank[a.peer].known) return PST_NONE;
    const pst_suspect_rank *peer = &s->rank[a.peer];
    p->instr = a.instr;
    p->fingerprint = mix(mix(p->fingerprint, a.instr), a.message);
    if (peer_posted(s, rank, &a)) {
        if (!in_chain(p, a.peer)) append(p, a.peer);
        accuse(p, PST_SUSPECT_LOST, a.is_recv ? a.peer : rank, a.is_recv ? rank : a.peer);
        return PST_NONE;
    }
    if (in_chain(p, a.peer)) {
        accuse(p, PST_SUSPECT_DEADLOCK, a.peer, rank);
        if (pst_suspect_order(s, p) != PST_NONE) accuse(p, p->kind, p->culprit, p->victim);
        return PST_NONE;
    }
    if (!append(p, a.peer)) return PST_NONE;
    uint32_t activity = peer->at.activity;
    if (!peer->left &&
        (activity == PST_AT_WAIT || activity == PST_AT_COLLECTIVE || activity == PST_AT_EXCHANGE))
        return a.peer;
    p->fingerprint = mix(p->fingerprint, peer->at.moves);
    accuse(p, peer->left ? PST_SUSPECT_LEFT : PST_SUSPECT_BUSY, a.peer, rank);
    return PST_NONE;
}

void pst_suspect_find(const pst_suspect_scene *s, uint32_t rank, pst_suspect *suspect) {
    *suspect = (pst_suspect){
        .kind = PST_SUSPECT_NOBODY, .culprit = PST_NONE, .victim = PST_NONE, .instr = PST_NONE};
    if (!s->rank[rank].known) return;
    append(suspect, rank);
    while (rank != PST_NONE) rank = follow(s, rank, suspect);
}
