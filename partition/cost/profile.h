/* A profile: measured durations of operators, messages and the flush on one machine (`penstock
 * profile`, src/commands/profile.c), in a file that users may edit and merge (docs/formats.md).
 * Each duration was measured twice: on one rank alone, and while one rank per processor of the
 * machine computes, so that the ranks share memory bandwidth and caches. */
#ifndef PST_PARTITION_COST_PROFILE_H
#define PST_PARTITION_COST_PROFILE_H
#include "base/status.h"
#include "graph/graph.h"
#include <stdio.h>

typedef struct pst_profile pst_profile;

/* The machine and the configuration of a profile's measurements. */
typedef struct {
    /* version of the program, date of the measurement; informative only */
    char penstock[24], date[24];
    char cpu[128], isa[24];
    uint32_t cpus, threads; /* number of processors of the machine; threads per rank */
    uint32_t ranks; /* number of ranks that computed at once for the "busy" durations, at least 1 */
    char precision[8], optimizer[16];
    /* device type ("cuda") and vendor name of the device; both are "" for the processor */
    char device[24], model[128];
} pst_profile_head;

/* What was measured. */
typedef enum {
    PST_PROFILE_PASS,    /* one pass of an operator; text: pst_profile_shape */
    PST_PROFILE_MESSAGE, /* one message; size: bytes */
    /* a sum over tensor ranks; text: number of tensor ranks, size: bytes that each of them
     * receives */
    PST_PROFILE_EXCHANGE,
    PST_PROFILE_NORM, /* gradient norm; size: elements, as for the next two kinds */
    PST_PROFILE_STEP,
    PST_PROFILE_REDUCE,
    /* time of the executor between the end of an operator and the start of the next */
    PST_PROFILE_LAUNCH,
    PST_PROFILE_GATHER, /* exchange of the gradient norms of all ranks */
    PST_PROFILE_PACK,   /* a gradient is packed with a codec; size: elements */
    PST_PROFILE_KINDS
} pst_profile_kind;

typedef struct {
    pst_profile_kind kind;
    char *text; /* owned by the profile; "" for kinds without a text */
    uint64_t size;
    /* duration in ns on one rank alone; while all ranks compute. 0: not measured; lookups then use
     * the other one */
    double ns[2];
} pst_profile_row;

enum { PST_PROFILE_TEXT = 256, PST_PROFILE_ROWS = 16384 };
/* Formats the operator, pass and shapes of a step, such as "linear F 4x64x128 w 384x128"; steps
 * with the same text take the same time. extra: 0, PST_EXTRA_SUM or PST_EXTRA_RESTORE. Returns
 * `text`. */
const char *pst_profile_shape(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                              char text[PST_PROFILE_TEXT]);

pst_status pst_profile_open(const pst_profile_head *head, pst_profile **profile);
void pst_profile_close(pst_profile *profile); /* NULL: nothing */
const pst_profile_head *pst_profile_head_of(const pst_profile *profile);
/* Returns all rows, sorted by kind, text and size, and sets *n to their number. The profile owns
 * the rows. */
const pst_profile_row *pst_profile_rows(const pst_profile *profile, uint32_t *n);
/* Sets the duration (busy 0: of one rank alone; 1: while all ranks compute) of the row with this
 * kind, text and size; adds the row if it is missing. text is copied; NULL means "". EINPUT: too
 * many rows; ENOMEM. */
pst_status pst_profile_set(pst_profile *profile, pst_profile_kind kind, const char *text,
                           uint64_t size, int busy, double ns);
/* Returns OK if the profile can be merged with a profile that has the head `other`; else EINPUT,
 * and pst_error() names the first difference. */
pst_status pst_profile_joins(const pst_profile *p, const pst_profile_head *other);
/* Copies every row of `from` to `to`; a row with the same key is replaced. EINPUT if machine,
 * instruction set, threads, precision or optimizer differ; pst_error() names the difference. */
pst_status pst_profile_merge(pst_profile *to, const pst_profile *from);
/* Like pst_profile_merge, but without comparing the heads. */
pst_status pst_profile_force(pst_profile *to, const pst_profile *from);
/* Returns OK if the profile is valid for the machine and run `here`; else EINPUT, and pst_error()
 * names the first difference: device, precision, optimizer, and for CPUs also processor name,
 * instruction set and threads. */
pst_status pst_profile_check(const pst_profile *profile, const pst_profile_head *here);

/* Reads a profile file of at most 16 MiB. The caller frees *profile with pst_profile_close. EINPUT:
 * pst_error() gives file, line, column and what is allowed. */
pst_status pst_profile_load(const char *path, pst_profile **profile);
pst_status pst_profile_parse(const char *text, size_t bytes, const char *file,
                             pst_profile **profile);
pst_status pst_profile_print(const pst_profile *profile, FILE *out);

/* Return the measured duration, in ns, while `busy` ranks compute at once (0: 1 rank); 0: not
 * measured. The time of a pass includes the executor's launch time, and is interpolated if the pass
 * was only measured with other micro-batch sizes (powers of two). Other kinds are interpolated
 * between two measured sizes; outside the measured range the time is proportional to the size, but
 * a message shorter than the shortest one takes the same time as the shortest. */
uint64_t pst_profile_pass_ns(const pst_profile *profile, const pst_graph *g, const pst_node *node,
                             int extra, pst_pass pass, uint32_t busy);
uint64_t pst_profile_ns(const pst_profile *profile, pst_profile_kind kind, uint64_t size,
                        uint32_t busy);
/* Returns the measured duration, in ns, of a collective of `parts` tensor ranks if each of them
 * receives `bytes`; 0: not measured. */
uint64_t pst_profile_exchange_ns(const pst_profile *profile, uint32_t parts, uint64_t bytes);
/* Sets *steps to the number of operator steps in the training of g (without collectives of tensor
 * ranks) and *missing to the number of these that are not in the profile. Writes up to three
 * missing shapes to text[0..bytes). */
pst_status pst_profile_missing(const pst_profile *profile, const pst_graph *g, uint32_t *missing,
                               uint32_t *steps, char *text, size_t bytes);
#endif
