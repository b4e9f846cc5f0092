/* The phases of pst_prepare: from a configuration to a layout, and from a layout to the prepared
 * job. */
#ifndef PST_PREPARE_LAYOUT_H
#define PST_PREPARE_LAYOUT_H
#include "pipeline/layout/layout.h"
#include "prepare/prepare.h"

/* The layout of a job of options.n_rank ranks: options.plan's or, without a plan, the run file's,
 * which has no cut yet. The caller closes it. EINPUT names the key that contradicts. */
pst_status pst_prepare_layout(const pst_config *config, const pst_prepare_options *options,
                              pst_layout *layout);
/* prepare/grid.c: sets its degrees. */
pst_status pst_prepare_grid(const pst_config *config, const pst_prepare_options *options,
                            pst_layout *layout);
/* prepare/devices.c: its devices: those of the plan (may be NULL), else of parallel.devices; NULL:
 * rank r has device r. */
pst_status pst_prepare_layout_devices(const pst_config *config, const pst_plan *plan, uint32_t n,
                                      uint32_t **device);
/* prepare/build.c: prepares a layout with a named schedule, or with given ones. */
pst_status pst_prepare_build(const pst_config *config, const pst_prepare_options *options,
                             const pst_layout *layout, pst_prepared **prepared);
/* prepare/solved.c: the same for a layout whose schedule has to be solved. */
pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options,
                              const pst_layout *layout, pst_prepared **prepared);
#endif
