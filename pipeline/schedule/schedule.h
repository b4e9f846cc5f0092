/* Schedules: in which order each rank runs the F, B, W (or fused BW) of its chunks and
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

/* How chunks lie on ranks. */
typedef enum {
    PST_PLACE_ROUND, /* chunk c on rank c mod p: with one chunk per rank, chunk s on rank s */
    PST_PLACE_THERE_AND_BACK /* chunks 0..p-1 on ranks 0..p-1, chunks p..2p-1 on ranks p-1..0 */
} pst_placement;

typedef struct pst_schedule_rules pst_schedule_rules;

/* What an order is made from, and what for. */
typedef enum {
    PST_SCHEDULE_GENERATED, /* trains; from the numbers of stages, chunks and micro-batches alone */
    PST_SCHEDULE_FORWARD,   /* likewise, F only: evaluation and generation */
    PST_SCHEDULE_READ,      /* from a file: pipeline/schedule/csv.h */
    PST_SCHEDULE_SOLVED     /* pipeline/solve/solve.h */
} pst_schedule_kind;

typedef struct pst_schedule_row pst_schedule_row;
struct pst_schedule_row {
    const char *name, *help;
    pst_schedule_kind kind;
    int split;
    uint32_t n_virtual; /* chunks per rank; 0: any number, 2 by default */
    pst_placement placement;
    /* NULL: of other kinds than the first two */
    pst_status (*generate)(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                           uint32_t n_micro, pst_schedule **schedule);
    /* The rest is for planning; flight.h describes rules, bubble and held. */
    /* NULL: what is in flight has to be counted, with all micro-batches. Rules of a row that may
     * hold more than 2p + 2 of them need `full`. */
    const pst_schedule_rules *rules;
    double bubble, held;
    int plain;       /* with one stage no other holds fewer micro-batches or takes less time */
    int within_1f1b; /* no stage holds more than the first one of 1f1b */
    int spares;      /* proposed where memory is short */
    int lends_place; /* a solved order may have its chunks where this one has them */
    int sets_limit; /* where none is given, a solved order may use the memory that this one needs */
};
/* Those with a generator; the last one is `forward`. */
const pst_schedule_row *pst_schedule_rows(uint32_t *n);
/* EINPUT with "did you mean" when unknown. */
pst_status pst_schedule_find(const char *name, const pst_schedule_row **row);
/* The i-th name that is found; NULL: there are no more. */
const char *pst_schedule_name(uint32_t i);
/* The kind of a name; PST_SCHEDULE_GENERATED where it is unknown. */
pst_schedule_kind pst_schedule_kind_of(const char *name);
/* The name of the only row of a kind other than PST_SCHEDULE_GENERATED. */
const char *pst_schedule_name_of(pst_schedule_kind kind);
/* The row that is `plain`: for what runs on one stage. */
const pst_schedule_row *pst_schedule_plain(void);
/* The row that lends its place for so many chunks per rank; NULL: there is none. */
const pst_schedule_row *pst_schedule_placed(pst_placement placement, uint32_t n_virtual);
/* The row that sets the limit of memory for so many chunks per rank; where none has as many, that
 * for several. */
const pst_schedule_row *pst_schedule_limit(uint32_t n_virtual);
/* Chunks per rank of a schedule when `asked` (0: nothing) was asked for; EINPUT when it has
 * others. */
pst_status pst_schedule_virtual(const pst_schedule_row *row, uint32_t asked, uint32_t *n_virtual);
/* n_virtual: as pst_schedule_virtual. */
pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule);
/* F only, over the ranks and chunks of another schedule. */
pst_status pst_schedule_forward(const pst_schedule *like, uint32_t n_micro,
                                pst_schedule **schedule);
pst_status pst_schedule_copy(const pst_schedule *from, pst_schedule **schedule);
void pst_schedule_close(pst_schedule *schedule);
/* Each chunk's F, B, W of each micro-batch once, F before B before W, W (BW) ascending in
 * micro-batch. */
pst_status pst_schedule_check(const pst_schedule *schedule);
/* The same; when it fails, *rank and *action say whose action it is (UINT32_MAX: nobody's; one that
 * is missing). */
pst_status pst_schedule_check_at(const pst_schedule *schedule, uint32_t *rank, uint32_t *action);
pst_status pst_schedule_print(const pst_schedule *schedule, FILE *out);
#endif
