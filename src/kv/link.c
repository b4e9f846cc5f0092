/* See link.h. */
#include "kv/link.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_kv_state(const pst_kv *kv) {
    return kv->status == PST_OK ? PST_OK : pst_fail(kv->status, "%s", kv->message);
}

pst_status pst_kv_transfer(pst_kv *kv, const pst_transfer *transfer, pst_kv_done done, void *arg) {
    pst_status status = PST_OK;
    if (kv->n_flight == kv->room_flight) {
        uint32_t room = kv->room_flight ? 2 * kv->room_flight : 64;
        pst_kv_flight *more = realloc(kv->flight, room * sizeof *more);
        if (more) {
            kv->flight = more;
            kv->room_flight = room;
        } else {
            status = pst_no_memory("for messages");
        }
    }
    pst_kv_flight f = {.done = done, .arg = arg};
    if (status == PST_OK) status = kv->transport->ops->post(kv->transport, transfer, &f.request);
    if (status != PST_OK) return done(kv, arg, status);
    kv->flight[kv->n_flight++] = f;
    return PST_OK;
}

pst_status pst_kv_test_transfers(pst_kv *kv, int *moved) {
    for (uint32_t i = 0; i < kv->n_flight;) {
        pst_kv_flight f = kv->flight[i];
        pst_status status = kv->transport->ops->test(kv->transport, f.request, NULL);
        if (status == PST_BUSY) {
            i++;
            continue;
        }
        /* the others keep their order, in which pushes of a worker are applied */
        memmove(kv->flight + i, kv->flight + i + 1, (--kv->n_flight - i) * sizeof *kv->flight);
        *moved = 1;
        PST_TRY(f.done(kv, f.arg, status));
    }
    return PST_OK;
}

void pst_kv_drop_transfers(pst_kv *kv) {
    for (uint32_t i = 0; i < kv->n_flight; i++)
        (void)kv->flight[i].done(kv, kv->flight[i].arg, PST_EPEER);
    kv->n_flight = 0;
}
