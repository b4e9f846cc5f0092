/* TensorBoard event files: runs/NAME/tb/events.out.tfevents.*, written by rank 0 in addition to
 * metrics.jsonl. Each training process writes one file; a resumed run starts another, whose first
 * record tells TensorBoard which steps of older files to drop. Every call writes to the file
 * without buffering, so that TensorBoard can follow the run. */
#ifndef PST_METRICS_EVENTS_H
#define PST_METRICS_EVENTS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_events pst_events;
typedef struct {
    /* "loss/train": TensorBoard groups by the part before the slash; at most 63 bytes */
    const char *tag;
    double value; /* stored as fp32 */
} pst_events_scalar;

/* folder: created if it is missing. first_step: the first step that will be written. most_scalars:
 * largest number of values in one call of pst_events_scalars. text: shown by TensorBoard as
 * preformatted text with the name `tag`. ENOMEM: no memory, or the file cannot be written. */
pst_status pst_events_open(const char *folder, uint64_t first_step, uint32_t most_scalars,
                           const char *tag, const char *text, pst_events **events);
void pst_events_close(pst_events *events);
/* Writes one record with n values of a step; allocates nothing. ENOMEM: the record could not be
 * written completely and was removed, so the file stays readable; a later call may succeed. */
pst_status pst_events_scalars(pst_events *events, uint64_t step, const pst_events_scalar *scalar,
                              uint32_t n);

/* Checksum of a record: CRC-32C (Castagnoli), and the masked form that TFRecord files contain
 * (rotated right by 15 bits, plus a constant). */
uint32_t pst_events_crc32c(const void *data, size_t bytes);
uint32_t pst_events_masked_crc(const void *data, size_t bytes);
#endif
