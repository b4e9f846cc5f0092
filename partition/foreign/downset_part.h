/* Grows parts of a split item by item from a downset. Shared by the searches of downset.h. */
#ifndef PST_PARTITION_FOREIGN_DOWNSET_PART_H
#define PST_PARTITION_FOREIGN_DOWNSET_PART_H
#include "partition/foreign/downset.h"

/* The part between the root and `downset`. */
typedef struct {
    uint32_t downset, edge, item;
    double size, exchange;
    double cut, fixed; /* cut: cost of the nets (hyperedges) cut now; fixed: of those that stay cut
                          whatever the part gains */
    struct {
        double time;
        uint32_t forbidden; /* items that are not allowed on this kind */
    } on[PST_DOWNSET_KINDS];
} pst_downset_part;

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    uint32_t *seen;                  /* [downset] 1 + the last root that reached it */
    uint32_t *net_of_first, *net_of; /* nets of every item */
    uint32_t *held;                  /* [net] how many of its pins are in the part */
    uint8_t *below;                  /* [net] has pins in the root */
    pst_downset_part *stack;
    size_t part_bytes; /* size of a part with only the kinds in use */
} pst_downset_parts;

pst_status pst_downset_parts_open(const pst_downset_problem *p, const pst_downset_list *list,
                                  pst_downset_parts *parts);
void pst_downset_parts_close(pst_downset_parts *parts);
/* Visits every part from a root that fits on some devices with a load of at most `limit`, or can
 * grow into one. */
void pst_downset_parts_from(pst_downset_parts *parts, uint32_t root, double limit,
                            void (*visit)(void *arg, uint32_t root, const pst_downset_part *part),
                            void *arg);

/* How many devices of a kind may share a part. */
static inline uint32_t pst_downset_most(const pst_downset_kind *kind) {
    return kind->count < kind->replicas ? kind->count : kind->replicas;
}
/* The load on m devices of a kind. */
static inline double pst_downset_load(const pst_downset_problem *p, const pst_downset_part *part,
                                      uint32_t kind, double m) {
    double cut = p->kind[kind].pays && part->cut > 0 ? part->cut : 0;
    return (part->on[kind].time + cut + part->exchange * (m - 1) / m) / m;
}
#endif
