/* The generators of the schedules, and their rules (flight.h), for the table in rows.c. */
#ifndef PST_PIPELINE_SCHEDULE_ROWS_H
#define PST_PIPELINE_SCHEDULE_ROWS_H
#include "pipeline/schedule/flight.h"

typedef pst_status pst_schedule_generator(const pst_schedule_row *row, uint32_t n_rank,
                                          uint32_t n_virtual, uint32_t n_micro,
                                          pst_schedule **schedule);
/* --- pipeline/schedule/classic.c -------------------------------------------------------------- */
pst_schedule_generator pst_schedule_gpipe, pst_schedule_1f1b, pst_schedule_interleaved,
    pst_schedule_forward_row;
extern const pst_schedule_rules pst_schedule_gpipe_rules, pst_schedule_1f1b_rules,
    pst_schedule_interleaved_rules;
/* Appends all F to an empty schedule. */
void pst_schedule_fill_forward(pst_schedule *schedule);
/* --- pipeline/schedule/zb_h.c ----------------------------------------------------------------- */
pst_schedule_generator pst_schedule_zb_h1, pst_schedule_zb_h2;
extern const pst_schedule_rules pst_schedule_zb_h1_rules, pst_schedule_zb_h2_rules;
/* --- pipeline/schedule/v_shape.c ------------------------------------------------------- */
pst_schedule_generator pst_schedule_zb_v, pst_schedule_v_half, pst_schedule_v_min,
    pst_schedule_dualpipev;
extern const pst_schedule_rules pst_schedule_zb_v_rules, pst_schedule_v_half_rules,
    pst_schedule_v_min_rules, pst_schedule_dualpipev_rules;
#endif
