/* How long messages take between hosts: measured before the first step, because no model knows the network. */
#ifndef PST_ENGINE_LINK_H
#define PST_ENGINE_LINK_H
#include "engine/group.h"

/* One direction between two hosts: times of messages, sizes ascending; between them and beyond, a line through two. */
enum { PST_LINK_SIZES = 8 };
typedef struct {
    uint32_t n;              /* 0: not measured */
    uint64_t latency_ns;     /* of a message of hardly any bytes */
    uint64_t bytes[PST_LINK_SIZES], ns[PST_LINK_SIZES];
} pst_link;
uint64_t pst_link_ns(const pst_link *link, uint64_t bytes);
void pst_link_time(const pst_link *link, pst_instr *message); /* its durations */

/* Collective, after pst_group_open and pst_compare_ranks. For every two hosts between whose ranks p's training job has
 * messages, two of these ranks time the sizes that occur; every rank then has the durations in its job, which ranks
 * share a link (pst_job.host), and the prediction of p that follows. Nothing happens where all ranks are on one host.
 * Takes tenths of a second for two hosts. ENOMEM, EPEER. */
pst_status pst_link_measure(pst_group *g, pst_prepared *p);
#endif
