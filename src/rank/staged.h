/* A transport for device memory that the host cannot access, on top of a transport for host memory:
 * messages are copied through pinned memory in chunks, so that copies and sends overlap. Both ends
 * of a message must use this transport.
 *
 * Either end assigns a pair of buffers to a message only after both ends have posted the message:
 * the receiver announces its post; then the sender assigns a pair and announces its own post with
 * the first chunk; then the receiver assigns a pair. A message that has a pair always completes, so
 * a fixed number of pairs is enough for any order of posts. */
#ifndef PST_RANK_STAGED_H
#define PST_RANK_STAGED_H
#include "base/device.h"
#include "base/transport.h"

enum { PST_STAGED_PAIRS = 4, PST_STAGED_CHUNK = 1 << 20 };

/* largest: bytes of the largest message that this rank sends or receives; chunk: bytes per chunk,
 * equal on all ranks. Allocates 4 * PST_STAGED_PAIRS chunks (or buffers of `largest` bytes if that
 * is less) of pinned memory, freed with the device. inner and device are borrowed; close *staged
 * before them. */
pst_status pst_staged_open(pst_transport *inner, pst_device *device, uint64_t largest,
                           uint64_t chunk, pst_transport **staged);
#endif
