/* See inside.h. */
#include "verify/inside.h"
#include "graph/op.h"
#include <string.h>

static void note(pst_comparison *out, pst_compared_group group, const pst_recording *run,
                 const pst_recorded *at, const pst_recorded *expected, const char *why) {
    pst_difference d = {.found = 1,
                        .at = *at->record,
                        .expected = *expected->record,
                        .run = why,
                        .expected_run = run->name,
                        .index = UINT64_MAX};
    uint64_t n = at->record->stored < expected->record->stored ? at->record->stored
                                                               : expected->record->stored;
    for (uint64_t k = 0; k < n && d.index == UINT64_MAX; k++) {
        double a = pst_recorded_value(at, k), b = pst_recorded_value(expected, k);
        if (!memcmp(&a, &b, sizeof a)) continue;
        d.index = pst_recorded_index(at, k);
        d.value = a;
        d.expected_value = b;
    }
    out->different[group]++;
    pst_difference_keep(&out->first, &d);
}

static int same_numbers(const pst_record *a, const pst_record *b) {
    return a->n == b->n && a->digest == b->digest;
}

/* The record that wrote what this one has read: the latest before it on the same rank, else any. */
static const pst_recorded *writer_of(const pst_recording *run, const pst_recorded *reader) {
    pst_key key = pst_key_of(reader);
    key.kind = PST_KEY_VALUE;
    const pst_recorded *first = pst_recording_find(run, &key), *end = run->item + run->n,
                       *best = first;
    for (const pst_recorded *at = first; at && at < end; at++) {
        pst_key of = pst_key_of(at);
        if (pst_key_compare(&of, &key)) break;
        int own = at->record->rank == reader->record->rank,
            best_own = best->record->rank == reader->record->rank;
        if (own > best_own || (own == best_own && pst_recorded_before(best->record, at->record) &&
                               !pst_recorded_before(reader->record, at->record)))
            best = at;
    }
    return best;
}

static void check_read(const pst_recording *run, const pst_recorded *reader, pst_comparison *out) {
    const pst_recorded *writer = writer_of(run, reader);
    if (!writer) return;
    out->tensors[PST_GROUP_VALUES]++;
    if (same_numbers(reader->record, writer->record)) return;
    int own = writer->record->rank == reader->record->rank;
    note(out, PST_GROUP_VALUES, run, reader, writer,
         own ? "read after its memory was overwritten"
             : "received in a message with different values");
}

/* Records with equal keys, except for the rank: of a recomputation, and of what ranks hold alike.
 */
static void check_alike(const pst_recording *run, const pst_recorded *first,
                        const pst_recorded *other, pst_comparison *out) {
    const pst_record *a = first->record, *b = other->record;
    pst_key_kind kind = pst_key_of(first).kind;
    int again = a->kind == PST_RECORD_AGAIN || b->kind == PST_RECORD_AGAIN;
    pst_compared_group group = PST_GROUP_VALUES;
    if (kind == PST_KEY_SCALAR) group = PST_GROUP_NUMBERS;
    else if (kind == PST_KEY_PARAM || kind == PST_KEY_STATE) group = PST_GROUP_WEIGHTS;
    else if (kind == PST_KEY_DATA) group = PST_GROUP_DATA;
    else if (!again && kind == PST_KEY_VALUE) return; /* several ranks do not write one value */
    if (a->from != b->from || a->n != b->n) return;
    out->tensors[group]++;
    if (a->digest == b->digest) return;
    if (a->kind == PST_RECORD_AGAIN) note(out, group, run, first, other, "recomputed");
    else if (again) note(out, group, run, other, first, "recomputed");
    else if (a->rank == b->rank) note(out, group, run, other, first, "read again");
    else note(out, group, run, other, first, "expected the same value on all ranks");
}

/* A sum over tensor ranks, or a gathered tensor: alike on the ranks of a group. */
static int is_joined(const pst_record *r) {
    return r->exchange == PST_EXCHANGE_SUM || r->exchange == PST_EXCHANGE_GATHER ||
           r->exchange == PST_EXCHANGE_STACK;
}

static void check_exchange(const pst_recording *run, const pst_recorded *item,
                           pst_comparison *out) {
    pst_key key = pst_key_of(item);
    if (!item->file->tensor || !is_joined(item->record)) return;
    key.tensor = 0;
    const pst_recorded *first = pst_recording_find(run, &key);
    if (!first || !is_joined(first->record)) return;
    out->tensors[PST_GROUP_VALUES]++;
    if (same_numbers(item->record, first->record)) return;
    note(out, PST_GROUP_VALUES, run, item, first, "expected the same value on all tensor ranks");
}

/* A number of the step is the same on every rank, also on other tensor ranks; and so is a parameter
 * that all tensor ranks hold. */
static void check_all_tensor_ranks(const pst_recording *run, const pst_recorded *item,
                                   pst_comparison *out) {
    pst_key key = pst_key_of(item);
    int scalar = key.kind == PST_KEY_SCALAR,
        whole = (key.kind == PST_KEY_PARAM || key.kind == PST_KEY_STATE) &&
                item->record->slice.held == PST_HELD_WHOLE;
    if (!item->file->tensor || !(scalar || whole)) return;
    key.tensor = 0;
    const pst_recorded *first = pst_recording_find(run, &key);
    if (!first || first->record->n != item->record->n) return;
    pst_compared_group group = scalar ? PST_GROUP_NUMBERS : PST_GROUP_WEIGHTS;
    out->tensors[group]++;
    if (first->record->digest == item->record->digest) return;
    note(out, group, run, item, first, "expected the same value on all ranks");
}

void pst_inside_check(const pst_recording *run, pst_comparison *out) {
    const pst_recorded *first = run->item;
    for (size_t i = 0; i < run->n; i++) {
        const pst_recorded *item = run->item + i;
        pst_key key = pst_key_of(item), before = pst_key_of(first);
        if (pst_key_compare(&key, &before)) first = item;
        if (key.kind == PST_KEY_READ) check_read(run, item, out);
        else if (item != first) check_alike(run, first, item, out);
        check_exchange(run, item, out);
        check_all_tensor_ranks(run, item, out);
    }
}
