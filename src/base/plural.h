/* The plural ending of a noun after a number: "1 stage", "2 stages", "2 micro-batches". */
#ifndef PST_BASE_PLURAL_H
#define PST_BASE_PLURAL_H
#include <stdint.h>

static inline const char *pst_plural(uint64_t n) { return n == 1 ? "" : "s"; }
static inline const char *pst_plural_es(uint64_t n) { return n == 1 ? "" : "es"; }
#endif
