/* What a verification reads from a run's metrics.jsonl. */
#ifndef PST_VERIFY_METRICS_H
#define PST_VERIFY_METRICS_H
#include "base/status.h"
#include <stdint.h>

enum { PST_VERIFY_RANKS = 1024 };
typedef struct {
    uint32_t n; /* ranks */
    /* [n] number of bytes of each rank's arena up to the last byte written: measured, predicted */
    uint64_t peak[PST_VERIFY_RANKS], predicted[PST_VERIFY_RANKS];
} pst_verify_memory;

/* Reads the memory of all ranks at the last step in the file. EINPUT: the file is missing or
 * contains no step. */
pst_status pst_verify_read_memory(const char *path, pst_verify_memory *memory);
#endif
