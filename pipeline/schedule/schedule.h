/* Schedules: the order in which each rank runs the F, B, W (or fused BW) of its chunks and
 * micro-batches. Generators know nothing of memory or messages; pipeline/compile/job.h compiles
 * their order into instructions. */
#ifndef PST_PIPELINE_SCHEDULE_SCHEDULE_H
#define PST_PIPELINE_SCHEDULE_SCHEDULE_H
#include "base/opcode.h"
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

typedef struct {
    uint8_t opcode;
    uint16_t chunk;
    uint32_t micro;
} pst_action;
/* Durations of a chunk's passes of one micro-batch. */
typedef struct {
    uint64_t f, b, w;
} pst_pass_ns;

typedef struct {
    char name[32];
    uint32_t n_rank, n_chunk, n_micro;
    int split;               /* 1: W is an action of its own; 0: fused BW */
    int backward;            /* 0: F only (evaluation) */
    uint32_t *rank_of_chunk; /* [n_chunk] */
    uint32_t *n_action;      /* [n_rank] */
    pst_action **action;     /* [n_rank][n_action] */
} pst_schedule;

/* On which rank each chunk is. */
typedef enum {
    PST_PLACE_ROUND_ROBIN, /* chunk c on rank c mod p: with one chunk per rank, chunk s on rank s */
    PST_PLACE_V_SHAPE      /* chunks 0..p-1 on ranks 0..p-1, chunks p..2p-1 on ranks p-1..0 */
} pst_placement;

typedef struct pst_schedule_rules pst_schedule_rules;

/* How the order is made, and for what. */
typedef enum {
    PST_SCHEDULE_GENERATED, /* for training; from the numbers of stages, chunks and micro-batches */
    PST_SCHEDULE_FORWARD,   /* the same, F only: evaluation and generation */
    PST_SCHEDULE_FROM_FILE, /* from a file: pipeline/schedule/csv.h */
    PST_SCHEDULE_SOLVED     /* pipeline/solve/solve.h */
} pst_schedule_kind;

typedef struct pst_schedule_row pst_schedule_row;
struct pst_schedule_row {
    const char *name, *help;
    pst_schedule_kind kind;
    int split;
    uint32_t n_virtual; /* chunks per rank; 0: any number, by default 2 */
    pst_placement placement;
    /* NULL: FROM_FILE and SOLVED */
    pst_status (*generate)(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                           uint32_t n_micro, pst_schedule **schedule);
    /* The rest is for planning; flight.h explains rules, bubble and held. */
    /* NULL: the micro-batches in flight have to be counted, in an order of all micro-batches. A row
     * that may have more than 2p + 2 in flight needs the rule `saturation`. */
    const pst_schedule_rules *rules;
    double bubble, held;
    /* 1: chosen where there is one stage: no other schedule holds fewer micro-batches or is shorter
     * there */
    int single_stage;
    int within_1f1b;          /* no stage holds more than the first one of 1f1b */
    int saves_memory;         /* proposed when memory is short */
    int placement_for_solved; /* a solved order may use this placement */
    /* a solved order without a given limit may use as much memory as this one */
    int memory_limit_for_solved;
};
/* The rows with a generator; the last one is `forward`. */
const pst_schedule_row *pst_schedule_rows(uint32_t *n);
/* EINPUT, with "did you mean", if unknown. */
pst_status pst_schedule_find(const char *name, const pst_schedule_row **row);
/* The name of row i; NULL: there are no more. */
const char *pst_schedule_name(uint32_t i);
/* The kind of a named schedule; PST_SCHEDULE_GENERATED if the name is unknown. */
pst_schedule_kind pst_schedule_kind_of(const char *name);
/* The name of the only row of a kind; not for PST_SCHEDULE_GENERATED. */
const char *pst_schedule_name_of(pst_schedule_kind kind);
/* The row for one stage (`single_stage`). */
const pst_schedule_row *pst_schedule_single_stage(void);
/* The row whose placement a solved order with n_virtual chunks per rank uses; NULL: there is none.
 */
const pst_schedule_row *pst_schedule_with_placement(pst_placement placement, uint32_t n_virtual);
/* The row whose memory limits a solved order with n_virtual chunks per rank; without such a row,
 * that for several chunks. */
const pst_schedule_row *pst_schedule_with_limit(uint32_t n_virtual);
/* Chunks per rank of a schedule if `asked` are wanted (0: the default); EINPUT if it needs another
 * number. */
pst_status pst_schedule_virtual(const pst_schedule_row *row, uint32_t asked, uint32_t *n_virtual);
/* n_virtual: as pst_schedule_virtual. */
pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule);
/* F only, over the ranks and chunks of another schedule. */
pst_status pst_schedule_forward(const pst_schedule *like, uint32_t n_micro,
                                pst_schedule **schedule);
pst_status pst_schedule_copy(const pst_schedule *from, pst_schedule **schedule);
void pst_schedule_close(pst_schedule *schedule);
/* Each F, B and W of each chunk and micro-batch occurs once; F before B before W; each chunk's W
 * (BW) in micro-batch order. */
pst_status pst_schedule_check(const pst_schedule *schedule);
/* The same; on failure *rank and *action name the wrong action (*rank UINT32_MAX: no rank is to
 * blame; *action UINT32_MAX: an action of that rank is missing). */
pst_status pst_schedule_check_at(const pst_schedule *schedule, uint32_t *rank, uint32_t *action);
pst_status pst_schedule_print(const pst_schedule *schedule, FILE *out);
#endif
