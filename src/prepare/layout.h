/* From a configuration to a layout, and from that to what is prepared: the steps of pst_prepare. */
#ifndef PST_PREPARE_LAYOUT_H
#define PST_PREPARE_LAYOUT_H
#include "pipeline/layout/layout.h"
#include "prepare/prepare.h"

/* How a job of options.n_rank ranks lies, as options.plan says or, without one, the run file, whose
 * layout has no cut yet. The caller's. EINPUT names the key that contradicts. */
pst_status pst_prepare_layout(const pst_config *config, const pst_prepare_options *options,
                              pst_layout *layout);
/* prepare/grid.c: its degrees. */
pst_status pst_prepare_grid(const pst_config *config, const pst_prepare_options *options,
                            pst_layout *layout);
/* prepare/devices.c: its devices, NULL where they are in order, as the plan (NULL: none) has them,
 * else by parallel.devices. */
pst_status pst_prepare_layout_devices(const pst_config *config, const pst_plan *plan, uint32_t n,
                                      uint32_t **device);
/* prepare/build.c: of a layout whose schedule has a name, or is given. */
pst_status pst_prepare_build(const pst_config *config, const pst_prepare_options *options,
                             const pst_layout *layout, pst_prepared **prepared);
/* prepare/solved.c: the same of a layout whose schedule is to be solved for. */
pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options,
                              const pst_layout *layout, pst_prepared **prepared);
#endif
