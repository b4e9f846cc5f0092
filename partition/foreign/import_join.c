/* Merges items before a search: items on a cycle, which must be in one part, and items that cost
 * nothing if they are in the same part as their only neighbour. */
#include "partition/foreign/import.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- cycles: Tarjan's strongly connected components, without recursion ------------------------ */

typedef struct {
    uint32_t *first, *next;      /* successors */
    uint32_t *number, *low, *at; /* [n] order of discovery from 1 on, smallest number within reach,
                                    next edge to visit */
    uint32_t *path, *stack;
    uint8_t *open; /* [n] on the stack */
    uint32_t n_number, n_stack;
} circles;

static void close_component(circles *t, uint32_t v, uint32_t *group) {
    uint32_t w;
    do {
        w = t->stack[--t->n_stack];
        t->open[w] = 0;
        group[w] = v;
    } while (w != v);
}

static void component_from(circles *t, uint32_t root, uint32_t *group) {
    t->path[0] = root;
    for (uint32_t depth = 0;;) {
        uint32_t v = t->path[depth];
        if (!t->number[v]) {
            t->number[v] = t->low[v] = ++t->n_number;
            t->stack[t->n_stack++] = v;
            t->open[v] = 1;
            t->at[v] = t->first[v];
        }
        if (t->at[v] < t->first[v + 1]) {
            uint32_t w = t->next[t->at[v]];
            if (!t->number[w]) t->path[++depth] = w; /* then this edge again */
            else {
                if (t->open[w] && t->low[w] < t->low[v]) t->low[v] = t->low[w];
                t->at[v]++;
            }
            continue;
        }
        if (t->low[v] == t->number[v]) close_component(t, v, group);
        if (depth-- == 0) return;
    }
}

pst_status pst_import_cycles(uint32_t n, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *group) {
    size_t capacity = (size_t)n + 2;
    uint32_t *block = calloc(6 * capacity + n_edge, sizeof *block);
    uint8_t *open = calloc(capacity, 1);
    if (!block || !open) {
        free(block);
        free(open);
        return pst_no_memory("to contract a graph");
    }
    circles t = {.first = block,
                 .number = block + capacity,
                 .low = block + 2 * capacity,
                 .at = block + 3 * capacity,
                 .path = block + 4 * capacity,
                 .stack = block + 5 * capacity,
                 .next = block + 6 * capacity,
                 .open = open};
    for (uint32_t i = 0; i < n_edge; i++) t.first[edge[i].from + 2]++;
    for (uint32_t v = 0; v < n; v++) t.first[v + 2] += t.first[v + 1];
    for (uint32_t i = 0; i < n_edge; i++) t.next[t.first[edge[i].from + 1]++] = edge[i].to;
    for (uint32_t v = 0; v < n; v++)
        if (!t.number[v]) component_from(&t, v, group);
    free(block);
    free(open);
    return PST_OK;
}

/* --- items that cost nothing ------------------------------------------------------------------ */

typedef struct {
    const pst_downset_problem *p;
    uint32_t *first, *net; /* nets of every item */
    uint32_t *only;        /* [n] an item's only neighbour, NONE or MANY */
    uint32_t *group;       /* [n] union-find */
    int memory_matters;
} joining;
enum { NONE = UINT32_MAX, MANY = UINT32_MAX - 1 };

static uint32_t find(uint32_t *group, uint32_t i) {
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
}

/* Whether `other` has a pin in all nets of `item`. (Items that joined `item` before have no further
 * nets.) */
static int every_net_has(const joining *j, uint32_t item, uint32_t other) {
    for (uint32_t i = j->first[item]; i < j->first[item + 1]; i++) {
        uint32_t at = j->p->net_first[j->net[i]], end = j->p->net_first[j->net[i] + 1];
        while (at < end && find(j->group, j->p->pin[at]) != other) at++;
        if (at == end) return 0;
    }
    return 1;
}

/* Whether the item costs nothing in the part of `other`, whichever that is. */
static int is_free(const joining *j, uint32_t item, uint32_t other) {
    const pst_downset_problem *p = j->p;
    if (p->exchange[item] > 0 || (j->memory_matters && p->size[item] > 0)) return 0;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double time = p->time[(size_t)k * p->n_item + item];
        if (time > 0 && !(isinf(time) && isinf(p->time[(size_t)k * p->n_item + other]))) return 0;
    }
    return every_net_has(j, item, other);
}

static void find_neighbours(joining *j) {
    for (uint32_t i = 0; i < j->p->n_item; i++) j->only[i] = NONE;
    for (uint32_t i = 0; i < j->p->n_edge; i++) {
        uint32_t a = find(j->group, j->p->edge[i].from), b = find(j->group, j->p->edge[i].to);
        if (a == b) continue;
        j->only[a] = j->only[a] == NONE || j->only[a] == b ? b : MANY;
        j->only[b] = j->only[b] == NONE || j->only[b] == a ? a : MANY;
    }
}

/* Merges items that have one neighbour and cost nothing in the same part as this neighbour. Merging
 * increases no load and violates no order, so some optimal split has both in one part. */
static uint32_t join_round(joining *j) {
    uint32_t joined = 0;
    find_neighbours(j);
    for (uint32_t i = 0; i < j->p->n_item; i++) {
        if (j->group[i] != i || j->only[i] >= MANY) continue;
        uint32_t other = find(j->group, j->only[i]);
        if (other == i || !is_free(j, i, other)) continue;
        j->group[i] = other;
        j->only[other] = MANY; /* the next round considers its new neighbours */
        joined++;
    }
    return joined;
}

static void nets_of_items(joining *j) {
    const pst_downset_problem *p = j->p;
    uint32_t pins = p->net_first[p->n_net];
    for (uint32_t i = 0; i < pins; i++) j->first[p->pin[i] + 2]++;
    for (uint32_t i = 0; i < p->n_item; i++) j->first[i + 2] += j->first[i + 1];
    for (uint32_t net = 0; net < p->n_net; net++)
        for (uint32_t i = p->net_first[net]; i < p->net_first[net + 1]; i++)
            j->net[j->first[p->pin[i] + 1]++] = net;
}

pst_status pst_import_join(const pst_downset_problem *p, int memory_matters, uint32_t *group) {
    enum { ROUNDS = 1000 }; /* each shortens a chain of such items by one at either end */
    joining j = {.p = p, .group = group, .memory_matters = memory_matters};
    j.first = calloc((size_t)p->n_item + 2, sizeof *j.first);
    j.net = calloc((size_t)p->net_first[p->n_net] + 1, sizeof *j.net);
    j.only = calloc((size_t)p->n_item + 1, sizeof *j.only);
    int ok = j.first && j.net && j.only;
    for (uint32_t i = 0; i < p->n_item; i++) group[i] = i;
    if (ok) nets_of_items(&j);
    for (uint32_t round = 0; ok && round < ROUNDS && join_round(&j);) round++;
    for (uint32_t i = 0; i < p->n_item; i++) group[i] = find(group, i);
    free(j.first);
    free(j.net);
    free(j.only);
    return ok ? PST_OK : pst_no_memory("to contract a graph");
}
