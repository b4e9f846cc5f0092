/* A transport for memory that the host cannot reach, over one that moves the host's: messages go
 * through pinned memory in chunks, so that copying from or to the device and sending overlap. Both
 * ends are of this kind.
 *
 * A message takes a pair of buffers at either end only when both ends have posted it: the
 * receiver says that it has, then the sender takes a pair and says so with its first chunk, then
 * the receiver takes one. Whoever has a pair will get to its end, so a bounded number of pairs is
 * enough, in whatever order messages are posted. */
#ifndef PST_RANK_STAGED_H
#define PST_RANK_STAGED_H
#include "base/device.h"
#include "base/transport.h"

enum { PST_STAGED_PAIRS = 4, PST_STAGED_CHUNK = 1 << 20 };

/* largest: bytes of the largest message of this end; chunk: of a message, the same at all ends.
 * Takes 4 * PST_STAGED_PAIRS chunks (of `largest`, if that is less) of staging memory, which ends
 * with the device. inner and device are borrowed; close before them. */
pst_status pst_staged_open(pst_transport *inner, pst_device *device, uint64_t largest,
                           uint64_t chunk, pst_transport **staged);
#endif
