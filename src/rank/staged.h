/* A transport for device memory that the host cannot access, on top of a transport for host memory:
 * messages go through pinned memory in chunks, so that copies and sends overlap. Both ends must be
 * of this kind.
 *
 * A message gets a pair of buffers at either end only when both ends have posted it: the receiver
 * announces its post; then the sender takes a pair and announces its own with the first chunk; then
 * the receiver takes a pair. A message that has a pair always completes, so a fixed number of pairs
 * is enough, whatever the order of posts. */
#ifndef PST_RANK_STAGED_H
#define PST_RANK_STAGED_H
#include "base/device.h"
#include "base/transport.h"

enum { PST_STAGED_PAIRS = 4, PST_STAGED_CHUNK = 1 << 20 };

/* largest: bytes of the largest message of this end; chunk: bytes per chunk, the same at all ends.
 * Allocates 4 * PST_STAGED_PAIRS chunks (of `largest` bytes, if that is less) of staging memory,
 * freed with the device. inner and device are borrowed; close it before them. */
pst_status pst_staged_open(pst_transport *inner, pst_device *device, uint64_t largest,
                           uint64_t chunk, pst_transport **staged);
#endif
