/* The short form: groups joined by "+". A group is "NODES x DEVICES KIND", then its options: links
 * by name, speed, memory. A link's rate is that of one NIC, of which each device has one;
 * "ib:4x400Gb/s" means 4 NICs per node, "ib:400Gb/s/2" a network that is oversubscribed by 2. A
 * group without a link between nodes has that of the last group with one. */
#include "config/number.h"
#include "pipeline/cluster/parts.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 64, WORD = 64 };

typedef struct {
    uint32_t nodes, devices;
    const pst_device_kind *kind;
    double speed;
    uint64_t memory;
    pst_link_given given[PST_LEVEL_COUNT];
} group;

typedef struct {
    const char *text, *at, *file;
    char word[WORD];
    size_t column; /* column of the word */
    group group[MOST_GROUPS];
    uint32_t n;
} reader;

/* Counts ("16x8", "4") and a blank. */
int pst_cluster_is_short(const char *text) {
    const char *at = text + strspn(text, " ");
    size_t n = strspn(at, "0123456789");
    if (!n) return 0;
    at += n;
    if (*at == 'x' && (n = strspn(at + 1, "0123456789")) > 0) at += 1 + n;
    return *at == ' ';
}

static pst_status fail(const reader *r, const char *what) {
    return pst_fail(PST_EINPUT, "%s:1:%zu: '%s': %s", r->file, r->column, r->word, what);
}

/* Reads the next word, "" at the end; "+" is a separate word. */
static pst_status next(reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
    const char *from = r->at;
    if (*from == '+') r->at++;
    else
        while (*r->at && !strchr(" \t+", *r->at)) r->at++;
    r->column = (size_t)(from - r->text) + 1;
    for (const char *c = from; c < r->at; c++)
        if (!isgraph((unsigned char)*c))
            return pst_fail(PST_EINPUT,
                            "%s:1:%zu: found an unprintable character; expected ASCII text",
                            r->file, r->column);
    snprintf(r->word, sizeof r->word, "%.*s", (int)(r->at - from < WORD ? r->at - from : WORD - 1),
             from);
    return r->at - from < WORD ? PST_OK
                               : fail(r, "this word is too long; expected at most 63 characters");
}

static int count(const char *text, size_t n, uint32_t most, uint32_t *value) {
    uint64_t v = 0;
    if (!n || n > 8) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i])) return 0;
        v = 10 * v + (uint64_t)(text[i] - '0');
    }
    *value = (uint32_t)v;
    return v >= 1 && v <= most;
}

static pst_status read_counts(reader *r, group *g) {
    size_t n = strspn(r->word, "0123456789");
    g->nodes = 1;
    int fine = r->word[n] == 'x'
                   ? count(r->word, n, PST_CLUSTER_MAX_DEVICES, &g->nodes) &&
                         count(r->word + n + 1, strlen(r->word + n + 1), PST_CLUSTER_MAX_DEVICES,
                               &g->devices)
                   : count(r->word, strlen(r->word), PST_CLUSTER_MAX_DEVICES, &g->devices);
    return fine ? PST_OK
                : fail(r, "expected NODESxDEVICES, such as 16x8, or the devices of one node, such "
                          "as 8; at most 65536");
}

/* "400Gb/s", "4x400Gb/s", "400Gb/s/2". */
static pst_status read_link(reader *r, char *value, pst_level level, double directions,
                            pst_link_given *link) {
    char *slash = strrchr(value, '/'), *by = NULL;
    size_t n = strspn(value, "0123456789");
    if (slash && strcmp(slash, "/s")) {
        *slash = 0;
        by = slash + 1;
    }
    int fine = value[n] != 'x' || (level == PST_LEVEL_NODE && count(value, n, 1024, &link->nics));
    if (fine && value[n] == 'x') value += n + 1;
    fine = fine && pst_cluster_rate(value, &link->bytes_per_s);
    if (fine && by)
        fine = level == PST_LEVEL_NODE && pst_number_real(by, &link->oversubscription) &&
               link->oversubscription >= 1 && link->oversubscription <= 1000;
    link->bytes_per_s /= directions;
    if (fine) return PST_OK;
    if (level == PST_LEVEL_DEVICE)
        return fail(r, "expected a rate with its unit, such as nvlink:900GB/s");
    return fail(r, "expected a rate with its unit, such as ib:400Gb/s, ib:8x400Gb/s (NICs of a "
                   "node), ib:400Gb/s/2 (oversubscribed by 2)");
}

static pst_status read_option(reader *r, group *g) {
    char text[WORD];
    double v, directions;
    pst_level level;
    snprintf(text, sizeof text, "%s", r->word);
    char *value = strchr(text, ':');
    if (!value)
        return fail(
            r,
            "expected a link, such as nvlink:900GB/s or ib:400Gb/s, speed:0.5, memory:64GiB or +");
    *value++ = 0;
    if (!strcmp(text, "speed")) {
        if (!pst_number_real(value, &g->speed) || g->speed < 1e-3 || g->speed > 1e3)
            return fail(r, "expected a speed from 0.001 to 1000 (1: as in the data sheet)");
    } else if (!strcmp(text, "memory")) {
        if (!pst_number_bytes(value, &v) || v < 1 || v >= 0x1p60)
            return fail(r, "expected a size, such as 64GiB");
        g->memory = (uint64_t)v;
    } else if (pst_level_find(text, &level, &directions)) {
        if (g->given[level].bytes_per_s)
            return fail(r, "a link between the same devices or nodes is already given");
        return read_link(r, value, level, directions, &g->given[level]);
    } else return fail(r, "unknown option; expected speed, memory, or a link: " PST_LEVEL_NAMES);
    return PST_OK;
}

static pst_status read_group(reader *r) {
    if (r->n == MOST_GROUPS) return fail(r, "too many groups; expected at most 64");
    group *g = &r->group[r->n++];
    *g = (group){.speed = 1, .given = {PST_LINK_NOT_GIVEN, PST_LINK_NOT_GIVEN}};
    PST_TRY(next(r));
    PST_TRY(read_counts(r, g));
    PST_TRY(next(r));
    if (!*r->word) return fail(r, "expected a kind of device, such as h100 or cpu");
    pst_status status = pst_device_kind_find(r->word, NULL, 0, &g->kind);
    if (status != PST_OK) return pst_fail_in(status, "%s:1:%zu", r->file, r->column);
    while ((status = next(r)) == PST_OK && *r->word && strcmp(r->word, "+"))
        PST_TRY(read_option(r, g));
    return status;
}

static pst_status add_group(pst_cluster *c, const group *g) {
    uint32_t kind;
    PST_TRY(pst_cluster_add_kind(c, g->kind, &kind));
    PST_TRY(pst_cluster_add_devices(c, g->devices, kind, g->speed, g->memory));
    PST_TRY(pst_cluster_add_node(c, "", g->given));
    return pst_cluster_repeat_node(c, g->nodes - 1);
}

static pst_status add_all(reader *r, pst_cluster *c) {
    pst_link_given between = PST_LINK_NOT_GIVEN;
    int links = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        links |= r->group[i].given[PST_LEVEL_DEVICE].bytes_per_s > 0;
        if (r->group[i].given[PST_LEVEL_NODE].bytes_per_s) {
            between = r->group[i].given[PST_LEVEL_NODE];
            links = 1;
        }
    }
    for (uint32_t i = 0; i < r->n; i++) {
        pst_link_given *own = &r->group[i].given[PST_LEVEL_NODE];
        if (!own->bytes_per_s) *own = between;
        pst_status status = add_group(c, &r->group[i]);
        if (status != PST_OK) return pst_fail_in(status, "%s:1:%zu", r->file, strlen(r->text));
    }
    if (!links) pst_cluster_default_links(c);
    return PST_OK;
}

pst_status pst_cluster_parse_short(const char *text, const char *file, pst_cluster *c) {
    reader *r = malloc(sizeof *r);
    if (!r) return pst_fail(PST_ENOMEM, "%s: no memory to read the cluster", file);
    *r = (reader){.text = text, .at = text, .file = file};
    pst_status status = read_group(r);
    while (status == PST_OK && *r->word) status = read_group(r);
    if (status == PST_OK) status = add_all(r, c);
    free(r);
    return status;
}
