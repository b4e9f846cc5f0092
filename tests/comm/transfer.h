/* A transfer, in one expression. */
#ifndef PST_TESTS_COMM_TRANSFER_H
#define PST_TESTS_COMM_TRANSFER_H
#include "base/transport.h"

static inline pst_transfer transfer_of(pst_transfer_kind kind, uint32_t peer, uint32_t channel,
                                       uint32_t seq, void *mem, uint64_t bytes) {
    return (pst_transfer){
        .kind = kind, .peer = peer, .channel = channel, .seq = seq, .mem = mem, .bytes = bytes};
}
#endif
