/* A schedule, a synthetic cut, its job and its slots: what the tests of simulator, checker and
 * timeline work on. */
#ifndef PST_TESTS_PIPELINE_STUDY_H
#define PST_TESTS_PIPELINE_STUDY_H
#include "pipeline/check/check.h"
#include "pipeline/simulate/simulate.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_schedule *schedule;
    pst_cut *cut;
    pst_job *job;
    pst_slots *slots;
} study;

static inline pst_status study_open(study *s, const char *schedule, uint32_t n_rank,
                                    uint32_t n_micro, pst_pass_ns ns, const pst_instr_cost *cost) {
    const pst_schedule_row *row;
    int backward = pst_schedule_kind_of(schedule) != PST_SCHEDULE_FORWARD;
    *s = (study){0};
    PST_TRY(pst_schedule_find(schedule, &row));
    PST_TRY(pst_schedule_generate(schedule, n_rank, 0, n_micro, &s->schedule));
    PST_TRY(pst_schedule_check(s->schedule));
    PST_TRY(pst_cut_synthetic(s->schedule->n_chunk, row->split, backward, ns, 1000, &s->cut));
    return pst_job_build(s->schedule, s->cut, cost, &s->job, &s->slots);
}

static inline void study_close(study *s) {
    pst_slots_close(s->slots);
    pst_job_close(s->job);
    pst_cut_close(s->cut);
    pst_schedule_close(s->schedule);
}

/* Index of an instruction of a pass or message of a micro-batch on `rank`; nth counts those that
 * fit from 0. */
static inline uint32_t study_find(const study *s, uint32_t rank, pst_opcode op, uint32_t micro,
                                  uint32_t nth) {
    const pst_instr_list *list = &s->job->list[rank];
    for (uint32_t i = 0; i < list->n_instr - list->n_flush; i++) {
        if (list->instr[i].opcode == op && list->instr[i].micro == micro && !nth--) return i;
    }
    abort();
}

/* splitmix64 */
static inline uint64_t study_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* The seed of a property test: from the environment or fixed; printed, so that a failure can be had
 * again. */
static inline uint64_t study_seed(void) {
    const char *text = getenv("PST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20240611;
    printf("seed %llu (PST_SEED)\n", (unsigned long long)seed);
    return seed;
}
#endif
