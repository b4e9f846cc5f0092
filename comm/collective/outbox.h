/* Private to this component: shared memory of a group whose members are on one host. Each member
 * has an outbox: an anonymous file (memfd) that the other members map for reading. */
#ifndef PST_COMM_COLLECTIVE_OUTBOX_H
#define PST_COMM_COLLECTIVE_OUTBOX_H
#include "base/status.h"
#include <stdint.h>

/* Number of segments per member that an outbox holds. */
enum { PST_COLL_OUTBOX_ROUNDS = 4 };

/* The data with which another process finds and verifies a member's file. */
typedef struct {
    int32_t pid, fd; /* fd -1: no file */
    uint64_t nonce[2];
} pst_coll_announcement;

typedef struct {
    uint32_t n, me;
    int agreeing; /* 1: the second all-gather, of `mapped`, is under way */
    int fd;
    pst_coll_announcement *all; /* [n] */
    uint8_t *mapped;            /* [n] 1: the member has mapped all outboxes */
    uint8_t **mem;              /* [n] */
} pst_coll_outboxes;

uint64_t pst_coll_outbox_segment(uint32_t n);
uint8_t *pst_coll_outbox_slot(const pst_coll_outboxes *o, uint32_t member, uint64_t slot);
/* Creates the outbox of this member and sets all[me] to its description. */
pst_status pst_coll_outboxes_open(uint32_t n, uint32_t me, pst_coll_outboxes **outboxes);
void pst_coll_outboxes_close(pst_coll_outboxes *o);
/* Maps the outboxes that all[] describes; sets mapped[me] to 1 if all were mapped. */
void pst_coll_outboxes_map(pst_coll_outboxes *o);
/* To be called when mapped[] of all members is known. Returns 1 if every member has mapped all
 * outboxes. Closes the file descriptor. */
int pst_coll_outboxes_finish(pst_coll_outboxes *o);
#endif
