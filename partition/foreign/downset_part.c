/* See downset_part.h: depth first over the items that can be added, while a part can still end
 * below the limit. */
#include "partition/foreign/downset_part.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_downset_parts_close(pst_downset_parts *s) {
    void *all[] = {s->seen, s->net_of_first, s->net_of, s->held, s->below, s->stack};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *s = (pst_downset_parts){0};
}

pst_status pst_downset_parts_open(const pst_downset_problem *p, const pst_downset_list *list,
                                  pst_downset_parts *s) {
    size_t pins = p->net_first[p->n_net];
    *s = (pst_downset_parts){.p = p, .list = list};
    s->seen = calloc((size_t)list->n + 1, sizeof *s->seen);
    s->net_of_first = calloc((size_t)p->n_item + 2, sizeof *s->net_of_first);
    s->net_of = calloc(pins + 1, sizeof *s->net_of);
    s->held = calloc((size_t)p->n_net + 1, sizeof *s->held);
    s->below = calloc((size_t)p->n_net + 1, 1);
    s->stack = calloc((size_t)p->n_item + 1, sizeof *s->stack);
    if (!s->seen || !s->net_of_first || !s->net_of || !s->held || !s->below || !s->stack) {
        pst_downset_parts_close(s);
        return pst_fail(PST_ENOMEM, "no memory to search the partitions of a graph");
    }
    s->part_bytes = offsetof(pst_downset_part, on) + p->n_kind * sizeof s->stack->on[0];
    for (uint32_t i = 0; i < pins; i++) s->net_of_first[p->pin[i] + 2]++;
    for (uint32_t i = 0; i < p->n_item; i++) s->net_of_first[i + 2] += s->net_of_first[i + 1];
    for (uint32_t net = 0; net < p->n_net; net++)
        for (uint32_t i = p->net_first[net]; i < p->net_first[net + 1]; i++)
            s->net_of[s->net_of_first[p->pin[i] + 1]++] = net;
    return PST_OK;
}

static void take(pst_downset_parts *s, uint32_t item, pst_downset_part *f) {
    const pst_downset_problem *p = s->p;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double time = p->time[(size_t)k * p->n_item + item];
        if (isfinite(time)) f->on[k].time += time;
        else f->on[k].forbidden++;
    }
    f->size += p->size[item];
    f->exchange += p->exchange[item];
    for (uint32_t i = s->net_of_first[item]; i < s->net_of_first[item + 1]; i++) {
        uint32_t net = s->net_of[i], pins = p->net_first[net + 1] - p->net_first[net];
        double cost = p->net_cost[net];
        if (s->held[net]++ == 0) {
            f->cut += cost;
            if (s->below[net]) f->fixed += cost;
        }
        if (s->held[net] == pins) f->cut -= cost;
    }
}

static void give_back(pst_downset_parts *s, uint32_t item) {
    for (uint32_t i = s->net_of_first[item]; i < s->net_of_first[item + 1]; i++)
        s->held[s->net_of[i]]--;
}

/* Whether the part, or a larger one, fits on some device. */
static int may_grow(const pst_downset_parts *s, const pst_downset_part *f, double limit) {
    for (uint32_t k = 0; k < s->p->n_kind; k++) {
        const pst_downset_kind *kind = &s->p->kind[k];
        uint32_t most = pst_downset_most(kind);
        if (most && !f->on[k].forbidden && f->size <= kind->memory &&
            f->on[k].time + (kind->pays ? f->fixed : 0) <= limit * most)
            return 1;
    }
    return 0;
}

static void mark_below(pst_downset_parts *s, uint32_t root) {
    memset(s->below, 0, s->p->n_net);
    for (uint32_t d = root; d; d = s->list->parent[d]) {
        uint32_t item = s->list->last[d];
        for (uint32_t i = s->net_of_first[item]; i < s->net_of_first[item + 1]; i++)
            s->below[s->net_of[i]] = 1;
    }
}

void pst_downset_parts_from(pst_downset_parts *s, uint32_t root, double limit,
                            void (*visit)(void *arg, uint32_t root, const pst_downset_part *part),
                            void *arg) {
    const pst_downset_list *l = s->list;
    mark_below(s, root);
    s->stack[0] = (pst_downset_part){.downset = root, .edge = l->first[root]};
    for (uint32_t depth = 0;;) {
        pst_downset_part *f = &s->stack[depth];
        if (f->edge == l->first[f->downset + 1]) {
            if (depth == 0) return;
            give_back(s, f->item);
            depth--;
            continue;
        }
        uint32_t next = l->next[f->edge], item = l->item[f->edge];
        f->edge++;
        if (s->seen[next] == root + 1) continue;
        s->seen[next] = root + 1;
        pst_downset_part *g = f + 1;
        memcpy(g, f, s->part_bytes);
        g->downset = next;
        g->item = item;
        g->edge = l->first[next];
        take(s, item, g);
        if (may_grow(s, g, limit)) {
            visit(arg, root, g);
            depth++;
        } else give_back(s, item);
    }
}
