/* Lists for transports without tags, where a RECV takes the next message of its sender: for any two
 * ranks, one posts its RECVs in the order in which the other posts its SENDs. If messages are
 * consumed in another order than they are sent, some are received earlier than needed, and hold
 * their slots for longer. */
#include "pipeline/compile/builder.h"
#include <stdlib.h>
#include <string.h>

/* The messages of one action, in the order of its SENDs: forwarded values are sent first. */
static void add_messages(const pst_job_builder *b, pst_fifo *f, const pst_action *a,
                         uint32_t source, const uint32_t *action_at, const uint32_t *local_of) {
    const pst_schedule *s = b->schedule;
    const pst_chunk *chunk = b->cut->chunk + a->chunk;
    pst_event event = a->opcode == PST_OP_F ? PST_EV_SEND_F : PST_EV_SEND_B;
    if (a->opcode == PST_OP_W) return;
    for (int passed = 1; passed >= 0; passed--)
        for (uint32_t i = 0; i < chunk->n_local; i++) {
            const pst_local *l = chunk->local + i;
            if (!(l->uses >> event & 1) || (l->channel_in != PST_NONE) != passed) continue;
            uint32_t to = b->cut->tape->value[l->value].kind == PST_VALUE_GRAD ? a->chunk - 1u
                                                                               : a->chunk + 1u;
            uint32_t rank = s->rank_of_chunk[to];
            f->message[rank][f->n_message[rank]++] =
                (pst_fifo_message){.source = source,
                                   .post = action_at[pst_unit_time_key(s, to, a->opcode, a->micro)],
                                   .chunk = to,
                                   .local = local_of[l->channel_out],
                                   .micro = a->micro};
        }
}

/* A RECV must not be posted later than that of a message sent after it. Sorted by post, then
 * source, then order of the SENDs. */
static void order_messages(pst_fifo *f, uint32_t rank, uint32_t n_action,
                           pst_fifo_message *sorted) {
    pst_fifo_message *m = f->message[rank];
    uint32_t n = f->n_message[rank], *first = f->first[rank];
    for (uint32_t i = n; i-- > 1;)
        if (m[i - 1].source == m[i].source && m[i - 1].post > m[i].post) m[i - 1].post = m[i].post;
    for (uint32_t i = 0; i < n; i++) first[m[i].post + 1]++;
    for (uint32_t a = 0; a < n_action; a++) first[a + 1] += first[a];
    for (uint32_t i = 0; i < n; i++) sorted[first[m[i].post]++] = m[i];
    for (uint32_t a = n_action; a > 0; a--) first[a] = first[a - 1];
    first[0] = 0;
    memcpy(m, sorted, n * sizeof *m);
}

static pst_status fill(const pst_job_builder *b, pst_fifo *f, uint32_t *action_at,
                       uint32_t *local_of) {
    const pst_schedule *s = b->schedule;
    size_t most = 0;
    for (uint32_t c = 0; c < s->n_chunk; c++)
        for (uint32_t i = 0; i < b->cut->chunk[c].n_local; i++)
            if (b->cut->chunk[c].local[i].channel_in != PST_NONE)
                local_of[b->cut->chunk[c].local[i].channel_in] = i;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        size_t n = 0;
        for (uint32_t i = 0; i < s->n_action[r]; i++)
            action_at[pst_unit_time_key(s, s->action[r][i].chunk, s->action[r][i].opcode,
                                        s->action[r][i].micro)] = i;
        for (uint32_t c = 0; c < s->n_chunk; c++)
            if (s->rank_of_chunk[c] == r) n += b->cut->chunk[c].n_local;
        n *= s->n_micro;
        if (n > most) most = n;
        f->message[r] = malloc((n + 1) * sizeof *f->message[r]);
        f->first[r] = calloc(s->n_action[r] + (size_t)2, sizeof *f->first[r]);
        if (!f->message[r] || !f->first[r])
            return pst_fail(PST_ENOMEM, "no memory for the order of messages");
    }
    pst_fifo_message *sorted = malloc((most + 1) * sizeof *sorted);
    if (!sorted) return pst_fail(PST_ENOMEM, "no memory for the order of messages");
    for (uint32_t r = 0; r < s->n_rank; r++)
        for (uint32_t i = 0; i < s->n_action[r]; i++)
            add_messages(b, f, &s->action[r][i], r, action_at, local_of);
    for (uint32_t r = 0; r < s->n_rank; r++) order_messages(f, r, s->n_action[r], sorted);
    free(sorted);
    return PST_OK;
}

pst_status pst_fifo_open(const pst_job_builder *b, pst_fifo *f) {
    const pst_schedule *s = b->schedule;
    uint32_t *action_at = calloc((size_t)s->n_chunk * 4 * s->n_micro, sizeof *action_at);
    uint32_t *local_of = calloc(b->cut->n_channel + (size_t)1, sizeof *local_of);
    *f = (pst_fifo){s->n_rank, calloc(s->n_rank, sizeof *f->message),
                    calloc(s->n_rank, sizeof *f->n_message), calloc(s->n_rank, sizeof *f->first)};
    pst_status status = action_at && local_of && f->message && f->n_message && f->first
                            ? fill(b, f, action_at, local_of)
                            : pst_fail(PST_ENOMEM, "no memory for the order of messages");
    free(action_at);
    free(local_of);
    return status;
}

void pst_fifo_close(pst_fifo *f) {
    for (uint32_t r = 0; r < f->n_rank; r++) {
        if (f->message) free(f->message[r]);
        if (f->first) free(f->first[r]);
    }
    free(f->message);
    free(f->n_message);
    free(f->first);
}
