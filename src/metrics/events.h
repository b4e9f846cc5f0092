/* TensorBoard event files: runs/NAME/tb/events.out.tfevents.*, written by rank 0 beside
 * metrics.jsonl. One file per process that trains; a resumed run starts another, whose first record
 * tells TensorBoard which steps of the older ones are void. Every call ends in the file, so that a
 * TensorBoard that watches the folder follows. */
#ifndef PST_METRICS_EVENTS_H
#define PST_METRICS_EVENTS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_events pst_events;
typedef struct {
    /* "loss/train": TensorBoard groups by what stands before the slash; at most 63 bytes */
    const char *tag;
    double value; /* stored as fp32 */
} pst_events_scalar;

/* folder: made when it is not there. first_step: of the first step that will be written.
 * most_scalars: in one call of pst_events_scalars. text: shown by TensorBoard under the name `tag`,
 * as preformatted text. ENOMEM when there is no memory or the file cannot be written. */
pst_status pst_events_open(const char *folder, uint64_t first_step, uint32_t most_scalars,
                           const char *tag, const char *text, pst_events **events);
void pst_events_close(pst_events *events);
/* One record with n values of a step; asks for no memory. What could not be written whole is taken
 * back, so that the file stays readable: ENOMEM, and a later call may succeed. */
pst_status pst_events_scalars(pst_events *events, uint64_t step, const pst_events_scalar *scalar,
                              uint32_t n);

/* The checksum of a record: CRC-32C (Castagnoli), and its masked form (rotated by 15 bits, plus a
 * constant). */
uint32_t pst_events_crc32c(const void *data, size_t bytes);
uint32_t pst_events_masked_crc(const void *data, size_t bytes);
#endif
