/* Private to this component: memory that the members of a group on one host share. Each has an outbox, a
 * file without a name that the others map to read. */
#ifndef PST_COMM_COLLECTIVE_OUTBOX_H
#define PST_COMM_COLLECTIVE_OUTBOX_H
#include "base/status.h"
#include <stdint.h>

/* Segments that an outbox has room for, each for every member. */
enum { PST_COLL_OUTBOX_TURNS = 4 };

/* Where the file of a member is. */
typedef struct {
    int32_t pid, fd; /* fd -1: there is none */
    uint64_t word[2];
} pst_coll_announcement;

typedef struct {
    uint32_t n, me;
    int agreeing; /* the second all-gather is under way */
    int fd;
    pst_coll_announcement *all; /* [n] */
    uint8_t *mapped;            /* [n] 1: that member has mapped all */
    uint8_t **mem;              /* [n] */
} pst_coll_outboxes;

uint64_t pst_coll_outbox_segment(uint32_t n);
uint8_t *pst_coll_outbox_slot(const pst_coll_outboxes *o, uint32_t member, uint64_t slot);
/* This rank's own; all[me] announces it. */
pst_status pst_coll_outboxes_open(uint32_t n, uint32_t me, pst_coll_outboxes **outboxes);
void pst_coll_outboxes_close(pst_coll_outboxes *o);
/* Maps those that all[] announces; mapped[me] says whether all could be. */
void pst_coll_outboxes_map(pst_coll_outboxes *o);
/* Once mapped[] is known of all: 1 when every member has mapped all. */
int pst_coll_outboxes_settle(pst_coll_outboxes *o);
#endif
