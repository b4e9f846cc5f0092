/* A profile: how long operators, messages and the flush take on one machine, measured (`penstock
 * profile`, commands/profile.c) and read from a file that people may edit and join
 * (docs/formats.md). Durations are of a rank that computes alone, and of one beside which as many
 * compute as the machine has processors for: they share its memory's bandwidth and its caches. */
#ifndef PST_PARTITION_COST_PROFILE_H
#define PST_PARTITION_COST_PROFILE_H
#include "base/status.h"
#include "graph/graph.h"
#include <stdio.h>

typedef struct pst_profile pst_profile;

/* What a profile was taken on and of. */
typedef struct {
    char penstock[24], date[24]; /* for readers */
    char cpu[128], isa[24];
    uint32_t cpus, threads; /* processors of the machine; threads of a rank */
    uint32_t ranks;         /* that computed at once when "busy" was measured, at least 1 */
    char precision[8], optimizer[16];
    /* what computed, and what its maker calls it, may be ""; both "": the processor */
    char device[24], model[128];
} pst_profile_head;

/* What a duration is of. */
typedef enum {
    PST_PROFILE_PASS,    /* text: pst_profile_shape */
    PST_PROFILE_MESSAGE, /* size: bytes */
    /* a sum among tensor ranks, text: how many, size: bytes that each receives */
    PST_PROFILE_EXCHANGE,
    PST_PROFILE_NORM, /* size: elements, as of the next two */
    PST_PROFILE_STEP,
    PST_PROFILE_REDUCE,
    /* by the executor, of any operator: from the end of one to the start of the next */
    PST_PROFILE_LAUNCH,
    PST_PROFILE_GATHER, /* the answer to all norms */
    PST_PROFILE_KINDS
} pst_profile_kind;

typedef struct {
    pst_profile_kind kind;
    char *text; /* owned by the profile; "" where there is none */
    uint64_t size;
    /* alone; while all ranks compute. 0: not measured, then the other one stands for it */
    double ns[2];
} pst_profile_row;

enum { PST_PROFILE_TEXT = 256, PST_PROFILE_ROWS = 16384 };
/* "linear F 4x64x128 w 384x128": what is alike in all that take as long. extra: 0, PST_EXTRA_SUM or
 * PST_EXTRA_RESTORE. */
const char *pst_profile_shape(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                              char text[PST_PROFILE_TEXT]);

pst_status pst_profile_open(const pst_profile_head *head, pst_profile **profile);
void pst_profile_close(pst_profile *profile); /* NULL: nothing */
const pst_profile_head *pst_profile_head_of(const pst_profile *profile);
/* In the order of kind, text, size; *n receives their number. */
const pst_profile_row *pst_profile_rows(const pst_profile *profile, uint32_t *n);
/* Adds a row or takes the place of what was measured of the same; text is copied, and NULL is "".
 * EINPUT: too many. */
pst_status pst_profile_set(pst_profile *profile, pst_profile_kind kind, const char *text,
                           uint64_t size, int busy, double ns);
/* EINPUT names what differs between the profile and another of this head, so that they cannot be
 * joined. */
pst_status pst_profile_joins(const pst_profile *p, const pst_profile_head *other);
/* Everything that `from` has goes into `to`, in place of what is there. EINPUT names what differs
 * when they are of different machines, instruction sets, threads, precisions or optimizers. */
pst_status pst_profile_merge(pst_profile *to, const pst_profile *from);
/* The same without asking. */
pst_status pst_profile_force(pst_profile *to, const pst_profile *from);
/* EINPUT names the first thing in which the profile is of something else than `here`: device,
 * precision, optimizer, and where the processor computed, that, instruction set and threads. */
pst_status pst_profile_check(const pst_profile *profile, const pst_profile_head *here);

/* EINPUT says file, line, column, and what would be right. At most 16 MiB. */
pst_status pst_profile_load(const char *path, pst_profile **profile);
pst_status pst_profile_parse(const char *text, size_t bytes, const char *file,
                             pst_profile **profile);
pst_status pst_profile_print(const pst_profile *profile, FILE *out);

/* Nanoseconds while `busy` ranks (0: 1) compute at once; 0: it was not measured. Of a pass, the
 * executor's launch is in it; where other micro-batches were measured, powers of two, but not the
 * graph's, from those. Others: between two sizes on a line, above the largest as many times longer
 * as it is larger, below the smallest likewise, but for messages: as that. */
uint64_t pst_profile_pass_ns(const pst_profile *profile, const pst_graph *g, const pst_node *node,
                             int extra, pst_pass pass, uint32_t busy);
uint64_t pst_profile_ns(const pst_profile *profile, pst_profile_kind kind, uint64_t size,
                        uint32_t busy);
/* Of an exchange among so many tensor ranks in which each receives so many bytes. */
uint64_t pst_profile_exchange_ns(const pst_profile *profile, uint32_t parts, uint64_t bytes);
/* How many of the steps of g's training, exchanges among tensor ranks aside, have a shape that was
 * not measured, and up to three such shapes as text. */
pst_status pst_profile_missing(const pst_profile *profile, const pst_graph *g, uint32_t *missing,
                               uint32_t *steps, char *text, size_t bytes);
#endif
