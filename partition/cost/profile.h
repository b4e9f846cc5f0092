/* A profile: measured durations of operators, messages and the flush on one machine (`penstock
 * profile`, src/commands/profile.c), in a file that people may edit and merge (docs/formats.md).
 * Each duration was measured on one rank alone, and while as many ranks compute as the machine has
 * processors for, which then share memory bandwidth and caches. */
#ifndef PST_PARTITION_COST_PROFILE_H
#define PST_PARTITION_COST_PROFILE_H
#include "base/status.h"
#include "graph/graph.h"
#include <stdio.h>

typedef struct pst_profile pst_profile;

/* Where and for what a profile was measured. */
typedef struct {
    char penstock[24], date[24]; /* version and date, for people to read */
    char cpu[128], isa[24];
    uint32_t cpus, threads; /* processors of the machine; threads of a rank */
    uint32_t ranks;         /* ranks that computed at once for "busy" durations, at least 1 */
    char precision[8], optimizer[16];
    /* the device and its vendor name, may be ""; both "": the processor */
    char device[24], model[128];
} pst_profile_head;

/* What a duration belongs to. */
typedef enum {
    PST_PROFILE_PASS,    /* text: pst_profile_shape */
    PST_PROFILE_MESSAGE, /* size: bytes */
    /* a sum among tensor ranks; text: how many, size: bytes that each receives */
    PST_PROFILE_EXCHANGE,
    PST_PROFILE_NORM, /* size: elements, also for the next two */
    PST_PROFILE_STEP,
    PST_PROFILE_REDUCE,
    /* time from the end of an operator to the start of the next, in the executor */
    PST_PROFILE_LAUNCH,
    PST_PROFILE_GATHER, /* the exchange of all norms */
    PST_PROFILE_KINDS
} pst_profile_kind;

typedef struct {
    pst_profile_kind kind;
    char *text; /* owned by the profile; "": none */
    uint64_t size;
    /* one rank alone; all ranks at once. 0: not measured, and the other one is used */
    double ns[2];
} pst_profile_row;

enum { PST_PROFILE_TEXT = 256, PST_PROFILE_ROWS = 16384 };
/* "linear F 4x64x128 w 384x128": equal for all passes that take equally long. extra: 0,
 * PST_EXTRA_SUM or PST_EXTRA_RESTORE. */
const char *pst_profile_shape(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                              char text[PST_PROFILE_TEXT]);

pst_status pst_profile_open(const pst_profile_head *head, pst_profile **profile);
void pst_profile_close(pst_profile *profile); /* NULL: nothing */
const pst_profile_head *pst_profile_head_of(const pst_profile *profile);
/* Sorted by kind, text, size; *n receives their number. */
const pst_profile_row *pst_profile_rows(const pst_profile *profile, uint32_t *n);
/* Adds a row or replaces that with the same key; text is copied, NULL is "". EINPUT: too many. */
pst_status pst_profile_set(pst_profile *profile, pst_profile_kind kind, const char *text,
                           uint64_t size, int busy, double ns);
/* EINPUT names the first difference between the profile and this head: they cannot be merged. */
pst_status pst_profile_joins(const pst_profile *p, const pst_profile_head *other);
/* Copies every row of `from` into `to`, replacing rows with the same key. EINPUT names what differs
 * when machine, instruction set, threads, precision or optimizer do. */
pst_status pst_profile_merge(pst_profile *to, const pst_profile *from);
/* The same without this check. */
pst_status pst_profile_force(pst_profile *to, const pst_profile *from);
/* EINPUT names the first difference between the profile and `here`: device, precision, optimizer;
 * for a processor also its name, instruction set and threads. */
pst_status pst_profile_check(const pst_profile *profile, const pst_profile_head *here);

/* EINPUT gives file, line, column, and what would be right. At most 16 MiB. */
pst_status pst_profile_load(const char *path, pst_profile **profile);
pst_status pst_profile_parse(const char *text, size_t bytes, const char *file,
                             pst_profile **profile);
pst_status pst_profile_print(const pst_profile *profile, FILE *out);

/* ns while `busy` ranks (0: 1) compute at once; 0: not measured. A pass includes the executor's
 * launch; if it was measured with other micro-batches (powers of two) only, it is interpolated. For
 * other kinds: interpolated between two sizes; in proportion above the largest and below the
 * smallest one, except that the smallest message also stands for shorter ones. */
uint64_t pst_profile_pass_ns(const pst_profile *profile, const pst_graph *g, const pst_node *node,
                             int extra, pst_pass pass, uint32_t busy);
uint64_t pst_profile_ns(const pst_profile *profile, pst_profile_kind kind, uint64_t size,
                        uint32_t busy);
/* The same for an exchange among so many tensor ranks, each of which receives so many bytes. */
uint64_t pst_profile_exchange_ns(const pst_profile *profile, uint32_t parts, uint64_t bytes);
/* Counts the steps of g's training, without tensor exchanges, and how many of them have a shape
 * that was not measured; text: up to three such shapes. */
pst_status pst_profile_missing(const pst_profile *profile, const pst_graph *g, uint32_t *missing,
                               uint32_t *steps, char *text, size_t bytes);
#endif
