/* Checks a cut: simulates the events of one micro-batch through every chunk; each read has to find
 * the value that the tape names in its buffer; and both sides of every channel agree. */
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>

static const char *const event_name[PST_EV_COUNT] = {"RECV_F", "F",      "SEND_F", "RECV_B",
                                                     "B",      "SEND_B", "W"};

/* holds[buffer]: 1 + the local that it holds now, 0: nothing was written. */
static pst_status play_read(const pst_chunk *chunk, const uint32_t *holds, uint32_t c,
                            uint32_t local, pst_event event) {
    const pst_local *l = chunk->local + local;
    if (holds[l->buffer] == 1 + local) return PST_OK;
    return pst_fail(PST_EINTERNAL, "chunk %u: %s reads value %u, which is %s", c, event_name[event],
                    l->value, holds[l->buffer] ? "overwritten" : "not computed yet");
}

static pst_status play_program(const pst_cut *cut, uint32_t c, uint32_t opcode, uint32_t *holds) {
    const pst_chunk *chunk = cut->chunk + c;
    const pst_program *p = chunk->program + opcode;
    pst_event event = pst_event_of((uint8_t)opcode);
    for (uint32_t s = 0; s < p->n_step; s++) {
        const pst_step *step = p->step + s;
        if (cut->chunk_of_node[step->node] != c)
            return pst_fail(PST_EINTERNAL, "chunk %u: operator %u belongs to another chunk", c,
                            step->node);
        for (int write = 0; write < 2; write++)
            for (uint32_t i = 0; i < step->n_operand; i++) {
                const pst_operand *o = step->operand + i;
                if (o->kind != PST_OPERAND_VALUE) continue;
                if (o->index >= chunk->n_local)
                    return pst_fail(
                        PST_EINTERNAL,
                        "chunk %u: value %u of an operator does not exist; there are %u", c,
                        o->index, chunk->n_local);
                if (!write && o->access & PST_READ)
                    PST_TRY(play_read(chunk, holds, c, o->index, event));
                if (write && o->access & PST_WRITE)
                    holds[chunk->local[o->index].buffer] = 1 + o->index;
            }
    }
    return PST_OK;
}

static pst_status play_chunk(const pst_cut *cut, uint32_t c, uint32_t *holds) {
    const pst_chunk *chunk = cut->chunk + c;
    for (uint32_t i = 0; i < chunk->n_local; i++)
        if (chunk->buffer[chunk->local[i].buffer].place == PST_PLACE_DATA)
            holds[chunk->local[i].buffer] = 1 + i;
    for (pst_event event = PST_EV_RECV_F; event < PST_EV_COUNT; event++) {
        for (uint32_t i = 0; i < chunk->n_local; i++) {
            const pst_local *l = chunk->local + i;
            if (l->birth == event && l->channel_in != PST_NONE) holds[l->buffer] = 1 + i;
            if (l->channel_out != PST_NONE && (event == PST_EV_SEND_F || event == PST_EV_SEND_B) &&
                l->uses >> event & 1)
                PST_TRY(play_read(chunk, holds, c, i, event));
        }
        for (uint32_t op = PST_OP_F; op <= PST_OP_BW; op++)
            if (pst_event_of((uint8_t)op) == event) PST_TRY(play_program(cut, c, op, holds));
    }
    return PST_OK;
}

static pst_status check_local(const pst_cut *cut, uint32_t c, const pst_local *l) {
    const pst_buffer *b = cut->chunk[c].buffer + l->buffer;
    if (l->bytes > b->bytes || b->birth > l->birth ||
        ((l->uses | 1u << l->birth) & ~(uint32_t)b->deaths))
        return pst_fail(
            PST_EINTERNAL,
            "chunk %u: the buffer of value %u is too small, or free while the value is in use", c,
            l->value);
    if (b->place == PST_PLACE_SLOT) {
        const pst_cut_class *k = cut->class_ + b->class_;
        if (b->class_ >= cut->n_class || k->chunk != c || k->birth != b->birth ||
            k->deaths != b->deaths || b->offset + b->bytes > k->bytes)
            return pst_fail(
                PST_EINTERNAL,
                "chunk %u: the memory slots of value %u are of another chunk, lifetime or size", c,
                l->value);
    }
    if (b->place == PST_PLACE_SCRATCH &&
        b->offset + b->bytes > cut->chunk[c].program[b->pass_local - 1].scratch_bytes)
        return pst_fail(PST_EINTERNAL,
                        "chunk %u: value %u is outside the scratch memory of the pass", c,
                        l->value);
    return PST_OK;
}

/* What crosses a boundary at which messages are packed has been packed. */
static pst_status check_sent(const pst_cut *cut, uint32_t c, const pst_local *l) {
    if (l->channel_out == PST_NONE || !cut->packing.packs) return PST_OK;
    const uint32_t at = cut->tape->value[l->value].kind == PST_VALUE_GRAD ? c - 1 : c;
    if (!cut->packing.packs[at] || !pst_cut_may_pack(cut, l->value)) return PST_OK;
    return pst_fail(PST_EINTERNAL, "chunk %u: value %u is sent without being packed", c, l->value);
}

/* PACK and UNPACK read and write a value and the packed one, which have the right sizes. */
static pst_status check_packing(const pst_cut *cut, uint32_t s) {
    const pst_tape_step *step = cut->tape->step + s;
    const int packs = cut->tape->extra[s] == PST_EXTRA_PACK;
    const uint32_t to = step->operand[packs].index, from = step->operand[!packs].index;
    const pst_value *packed = cut->tape->value + to, *plain = cut->tape->value + from;
    const pst_value *of = packed->packs ? cut->tape->value + packed->packs - 1 : NULL;
    if (of && (!packs || of == plain) && of->tensor == plain->tensor && of->kind == plain->kind &&
        of->version == plain->version && of->bytes == plain->bytes &&
        packed->bytes == pst_codec_bytes(cut->packing.codec, plain->bytes / sizeof(float)))
        return PST_OK;
    return pst_fail(PST_EINTERNAL, "value %u is not value %u, packed", to, from);
}

/* side[channel]: the value that its sender names, not yet received; each receiver has to find it
 * and clears it. */
static pst_status check_channels(const pst_cut *cut, uint64_t *side) {
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t i = 0; i < cut->chunk[c].n_local; i++) {
            const pst_local *l = cut->chunk[c].local + i;
            if (l->channel_out == PST_NONE) continue;
            if (l->channel_out >= cut->n_channel || side[l->channel_out])
                return pst_fail(PST_EINTERNAL, "channel %u is used twice", l->channel_out);
            side[l->channel_out] = (uint64_t)l->value << 32 | 1;
        }
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t i = 0; i < cut->chunk[c].n_local; i++) {
            const pst_local *l = cut->chunk[c].local + i;
            if (l->channel_in == PST_NONE) continue;
            if (l->channel_in >= cut->n_channel ||
                side[l->channel_in] != ((uint64_t)l->value << 32 | 1))
                return pst_fail(PST_EINTERNAL, "channel %u: no chunk sends value %u", l->channel_in,
                                l->value);
            side[l->channel_in] = 0;
        }
    for (uint32_t k = 0; k < cut->n_channel; k++)
        if (side[k]) return pst_fail(PST_EINTERNAL, "channel %u: no chunk receives the value", k);
    return PST_OK;
}

pst_status pst_cut_check(const pst_cut *cut) {
    uint32_t n = 1, steps = 0;
    for (uint32_t c = 0; c < cut->n_chunk; c++) {
        const pst_chunk *chunk = cut->chunk + c;
        if (chunk->n_buffer > n) n = chunk->n_buffer;
        for (uint32_t p = 0; p < 4; p++) steps += chunk->program[p].n_step;
        for (uint32_t i = 0; i < chunk->n_local; i++) {
            PST_TRY(check_local(cut, c, chunk->local + i));
            PST_TRY(check_sent(cut, c, chunk->local + i));
        }
    }
    for (uint32_t s = 0; s < cut->tape->n_step; s++)
        if (pst_extra_packs(cut->tape->extra[s])) PST_TRY(check_packing(cut, s));
    if (steps != cut->tape->n_step)
        return pst_fail(PST_EINTERNAL,
                        "the chunks contain %u operator calls in total, but the tape contains %u",
                        steps, cut->tape->n_step);
    uint64_t *side = calloc((size_t)cut->n_channel + 1, sizeof *side);
    pst_status status =
        side ? check_channels(cut, side) : pst_fail(PST_ENOMEM, "no memory to check the cut");
    free(side);
    for (uint32_t c = 0; status == PST_OK && c < cut->n_chunk; c++) {
        uint32_t *holds = calloc(n, sizeof *holds);
        status =
            holds ? play_chunk(cut, c, holds) : pst_fail(PST_ENOMEM, "no memory to check the cut");
        free(holds);
    }
    return status;
}
