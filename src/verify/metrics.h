/* What a verification reads from a run's metrics.jsonl. */
#ifndef PST_VERIFY_METRICS_H
#define PST_VERIFY_METRICS_H
#include "base/status.h"
#include <stdint.h>

enum { PST_VERIFY_RANKS = 1024 };
typedef struct {
    uint32_t n; /* ranks */
    /* [n] bytes from the start of a rank's arena to the last one that it wrote; those predicted */
    uint64_t peak[PST_VERIFY_RANKS], predicted[PST_VERIFY_RANKS];
} pst_verify_memory;

/* Of the last step in the file. EINPUT: the file is missing or has none. */
pst_status pst_verify_read_memory(const char *path, pst_verify_memory *memory);
#endif
