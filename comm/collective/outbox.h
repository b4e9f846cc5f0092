/* Private to this component: memory that the members of a group on one host share. Each member has
 * an outbox, an anonymous file (memfd) that the others map for reading. */
#ifndef PST_COMM_COLLECTIVE_OUTBOX_H
#define PST_COMM_COLLECTIVE_OUTBOX_H
#include "base/status.h"
#include <stdint.h>

/* An outbox holds this many segments per member. */
enum { PST_COLL_OUTBOX_ROUNDS = 4 };

/* How another process finds and verifies a member's file. */
typedef struct {
    int32_t pid, fd; /* fd -1: no file */
    uint64_t nonce[2];
} pst_coll_announcement;

typedef struct {
    uint32_t n, me;
    int agreeing; /* 1: the second all-gather (of `mapped`) is under way */
    int fd;
    pst_coll_announcement *all; /* [n] */
    uint8_t *mapped;            /* [n] 1: that member has mapped all outboxes */
    uint8_t **mem;              /* [n] */
} pst_coll_outboxes;

uint64_t pst_coll_outbox_segment(uint32_t n);
uint8_t *pst_coll_outbox_slot(const pst_coll_outboxes *o, uint32_t member, uint64_t slot);
/* Creates this member's outbox; all[me] describes it. */
pst_status pst_coll_outboxes_open(uint32_t n, uint32_t me, pst_coll_outboxes **outboxes);
void pst_coll_outboxes_close(pst_coll_outboxes *o);
/* Maps the outboxes that all[] describes; mapped[me] becomes 1 if all were mapped. */
void pst_coll_outboxes_map(pst_coll_outboxes *o);
/* Call it when mapped[] of all members is known: 1 when every member has mapped all outboxes.
 * Closes the file descriptor. */
int pst_coll_outboxes_finish(pst_coll_outboxes *o);
#endif
