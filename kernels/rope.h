/* The angles of rotary positions, for the rotary kernels of every device. */
#ifndef PST_KERNELS_ROPE_H
#define PST_KERNELS_ROPE_H
#include "graph/graph.h"

/* angle[i], for the d/2 <= PST_ROPE_PAIRS pairs: the radians that pair i of a head of d channels
 * turns from a position to the next. Returns the factor of sines and cosines. */
float pst_rope_angles(const pst_rope *rope, uint64_t d, float *angle);
#endif
