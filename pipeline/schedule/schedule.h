/* A schedule: the order in which each rank runs F, B and W (or fused BW) of its chunks and
 * micro-batches. A schedule does not contain memory or messages; pipeline/compile/job.h compiles it
 * into instructions. */
#ifndef PST_PIPELINE_SCHEDULE_SCHEDULE_H
#define PST_PIPELINE_SCHEDULE_SCHEDULE_H
#include "base/opcode.h"
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

/* One pass of a micro-batch on a chunk. */
typedef struct {
    uint8_t opcode;
    uint16_t chunk;
    uint32_t micro;
} pst_action;
/* Durations in ns of the passes of one micro-batch on a chunk. */
typedef struct {
    uint64_t f, b, w;
} pst_pass_ns;

typedef struct {
    char name[32];
    uint32_t n_rank, n_chunk, n_micro;
    int split;               /* 1: B and W are separate actions; 0: fused BW */
    int backward;            /* 0: F only (evaluation) */
    uint32_t *rank_of_chunk; /* [n_chunk] rank (stage) of each chunk */
    uint32_t *n_action;      /* [n_rank] number of actions of each rank */
    pst_action **action;     /* [n_rank][n_action] */
} pst_schedule;

/* Placement of chunks on ranks (p: number of ranks). */
typedef enum {
    PST_PLACE_ROUND_ROBIN, /* chunk c on rank c mod p: with one chunk per rank, chunk s on rank s */
    PST_PLACE_V_SHAPE      /* chunks 0..p-1 on ranks 0..p-1, chunks p..2p-1 on ranks p-1..0 */
} pst_placement;

typedef struct pst_schedule_rules pst_schedule_rules;

/* Source and purpose of a schedule. */
typedef enum {
    /* for training; generated from the numbers of stages, chunks and micro-batches */
    PST_SCHEDULE_GENERATED,
    PST_SCHEDULE_FORWARD,   /* for evaluation and generation: F only; generated likewise */
    PST_SCHEDULE_FROM_FILE, /* read from a file: pipeline/schedule/csv.h */
    PST_SCHEDULE_SOLVED     /* optimized: pipeline/solve/solve.h */
} pst_schedule_kind;

typedef struct pst_schedule_row pst_schedule_row;
struct pst_schedule_row {
    const char *name, *help;
    /* the same schedule in torch.distributed.pipelining, get_schedule_class; NULL: it has none */
    const char *torch;
    pst_schedule_kind kind;
    int split;          /* 1: B and W are separate actions */
    uint32_t n_virtual; /* chunks per rank; 0: any number, 2 by default */
    pst_placement placement;
    /* NULL for kinds FROM_FILE and SOLVED */
    pst_status (*generate)(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                           uint32_t n_micro, pst_schedule **schedule);
    /* The following members are for planning; flight.h explains rules, bubble and held. */
    /* NULL: the micro-batches in flight are counted in a generated schedule. A schedule with more
     * than 2p + 2 micro-batches in flight needs the rule `saturation`. */
    const pst_schedule_rules *rules;
    double bubble, held;
    /* 1: used for a single stage, where no other schedule is shorter or has fewer micro-batches in
     * flight */
    int single_stage;
    int within_1f1b; /* 1: no stage has more micro-batches in flight than the first stage of 1f1b */
    int saves_memory;         /* 1: recommended if memory is short */
    int placement_for_solved; /* 1: a solved schedule may use the placement of this row */
    /* 1: the memory of this schedule is the limit for a solved schedule without a given limit */
    int memory_limit_for_solved;
};
/* Returns the rows with a generator (static) and sets *n to their number; the last row is
 * `forward`. */
const pst_schedule_row *pst_schedule_rows(uint32_t *n);
/* Finds a row by name. EINPUT: unknown name; pst_error() suggests a similar one. */
pst_status pst_schedule_find(const char *name, const pst_schedule_row **row);
/* Returns the name of row i; NULL: there are fewer rows. */
const char *pst_schedule_name(uint32_t i);
/* Returns the kind of a named schedule; PST_SCHEDULE_GENERATED if the name is unknown. */
pst_schedule_kind pst_schedule_kind_of(const char *name);
/* Returns the name of the only row of a kind; not for PST_SCHEDULE_GENERATED. */
const char *pst_schedule_name_of(pst_schedule_kind kind);
/* Returns the row with `single_stage`. */
const pst_schedule_row *pst_schedule_single_stage(void);
/* Returns the row with this placement for solved schedules with n_virtual chunks per rank; NULL:
 * there is none. */
const pst_schedule_row *pst_schedule_with_placement(pst_placement placement, uint32_t n_virtual);
/* Returns the row with the memory limit for solved schedules with n_virtual chunks per rank; if
 * there is none, the row for several chunks. */
const pst_schedule_row *pst_schedule_with_limit(uint32_t n_virtual);
/* Sets *n_virtual to the chunks per rank of a schedule. asked: the number that the user wants; 0:
 * the default. EINPUT: the schedule needs another number. */
pst_status pst_schedule_virtual(const pst_schedule_row *row, uint32_t asked, uint32_t *n_virtual);
/* Generates a schedule. n_virtual: as `asked` of pst_schedule_virtual. The caller frees *schedule
 * with pst_schedule_close. EINPUT: unknown name or wrong numbers; ENOMEM. */
pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule);
/* Generates a schedule with F only, with the ranks and chunks of `like`. The caller frees
 * *schedule. */
pst_status pst_schedule_forward(const pst_schedule *like, uint32_t n_micro,
                                pst_schedule **schedule);
pst_status pst_schedule_copy(const pst_schedule *from, pst_schedule **schedule);
void pst_schedule_close(pst_schedule *schedule);
/* Checks that each F, B and W of each chunk and micro-batch occurs once, in the order F, B, W, and
 * that each chunk's W (BW) are in micro-batch order. EINPUT names the action; ENOMEM. */
pst_status pst_schedule_check(const pst_schedule *schedule);
/* Like pst_schedule_check; after EINPUT, *rank and *action are the wrong action (*rank UINT32_MAX:
 * the error is not on one rank; *action UINT32_MAX: an action of the rank is missing). */
pst_status pst_schedule_check_at(const pst_schedule *schedule, uint32_t *rank, uint32_t *action);
/* Writes the order of each rank as a line of text. ENOMEM if `out` cannot be written. */
pst_status pst_schedule_print(const pst_schedule *schedule, FILE *out);
#endif
