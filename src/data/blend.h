/* Several sources of one kind, mixed by weights. */
#ifndef PST_DATA_BLEND_H
#define PST_DATA_BLEND_H
#include "data/data.h"

enum { PST_BLEND_MOST = 64 }; /* sources */
/* Opens each of config->paths as a data set of `row`, with an order, epochs and a validation split
 * of its own. Of any 4096 training samples in a row, starting at a multiple of 4096, each source
 * has its share by weights[i]; which sample comes from which source depends on the seed and the
 * sample's number only. The validation split is that of all sources, one after another. EINPUT:
 * weights and paths differ in number, a weight is not above 0, or a source cannot be opened. */
pst_status pst_blend_open(const pst_data_row *row, const pst_data_config *config, pst_data **out);
#endif
