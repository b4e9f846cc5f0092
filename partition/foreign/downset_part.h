/* Enumerates the parts of a split that begin at a downset, item by item. Used by the searches of
 * downset.h. */
#ifndef PST_PARTITION_FOREIGN_DOWNSET_PART_H
#define PST_PARTITION_FOREIGN_DOWNSET_PART_H
#include "partition/foreign/downset.h"

/* The part between the root downset and `downset`. */
typedef struct {
    uint32_t downset, edge, item;
    double size, exchange;
    /* cut: cost of the nets (hyperedges) that the part cuts; fixed: cost of those that remain cut
     * whichever items are added */
    double cut, fixed;
    struct {
        double time;
        uint32_t forbidden; /* number of items of the part that are not allowed on this kind */
    } on[PST_DOWNSET_KINDS];
} pst_downset_part;

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    uint32_t *seen; /* [downset] 1 + the last root from which the downset was reached */
    uint32_t *net_of_first, *net_of; /* the nets of item i begin at net_of[net_of_first[i]] */
    uint32_t *held;                  /* [net] number of the net's pins in the part */
    uint8_t *below;                  /* [net] 1: some pins of the net are in the root */
    pst_downset_part *stack;
    size_t part_bytes; /* bytes of a pst_downset_part with only the kinds in use */
} pst_downset_parts;

pst_status pst_downset_parts_open(const pst_downset_problem *p, const pst_downset_list *list,
                                  pst_downset_parts *parts);
void pst_downset_parts_close(pst_downset_parts *parts);
/* Calls `visit` for every part from `root` that fits on some devices with a load of at most
 * `limit`, or that can become such a part by adding items. */
void pst_downset_parts_from(pst_downset_parts *parts, uint32_t root, double limit,
                            void (*visit)(void *arg, uint32_t root, const pst_downset_part *part),
                            void *arg);

/* Returns the maximum number of devices of a kind that may replicate a part. */
static inline uint32_t pst_downset_most(const pst_downset_kind *kind) {
    return kind->count < kind->replicas ? kind->count : kind->replicas;
}
/* Returns the load of a part on m devices of a kind. */
static inline double pst_downset_load(const pst_downset_problem *p, const pst_downset_part *part,
                                      uint32_t kind, double m) {
    double cut = p->kind[kind].pays && part->cut > 0 ? part->cut : 0;
    return (part->on[kind].time + cut + part->exchange * (m - 1) / m) / m;
}
#endif
