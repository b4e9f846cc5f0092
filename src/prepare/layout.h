/* The phases of pst_prepare: configuration to layout, and layout to prepared job. */
#ifndef PST_PREPARE_LAYOUT_H
#define PST_PREPARE_LAYOUT_H
#include "pipeline/layout/layout.h"
#include "prepare/prepare.h"

/* The layout of a job of options.n_rank ranks: that of options.plan or, without a plan, the one
 * that the run file describes, which has no cut yet. The caller closes it. EINPUT: the message
 * names the key that contradicts another. */
pst_status pst_prepare_layout(const pst_config *config, const pst_prepare_options *options,
                              pst_layout *layout);
/* prepare/grid.c: sets the layout's degrees. */
pst_status pst_prepare_grid(const pst_config *config, const pst_prepare_options *options,
                            pst_layout *layout);
/* prepare/devices.c: *device: [n] device of each rank, from the plan (may be NULL) or else from
 * parallel.devices; the caller frees it. NULL: rank r has device r. */
pst_status pst_prepare_layout_devices(const pst_config *config, const pst_plan *plan, uint32_t n,
                                      uint32_t **device);
/* prepare/build.c: prepares a layout that names its schedule, or with options.schedules. */
pst_status pst_prepare_build(const pst_config *config, const pst_prepare_options *options,
                             const pst_layout *layout, pst_prepared **prepared);
/* prepare/solved.c: the same for a layout whose schedule the solver computes. */
pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options,
                              const pst_layout *layout, pst_prepared **prepared);
#endif
