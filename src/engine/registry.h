/* The ordered lists of every backend: the only file that sees them all. Adding a backend touches its own file and its
 * list here. A choice is made once at setup; at log level debug the chooser says why each candidate was passed over. */
#ifndef PST_ENGINE_REGISTRY_H
#define PST_ENGINE_REGISTRY_H
#include "base/device.h"
#include "base/transport.h"
#include "base/world.h"
#include "data/data.h"
#include "kernels/kernel.h"
#include "models/model.h"

/* By name; EINPUT lists the names and says what was meant. */
pst_status pst_registry_model(const char *name, const pst_model_row **row);
pst_status pst_registry_data(const char *name, const pst_data_row **row);
pst_status pst_registry_device(const char *name, const pst_device_config *config, const pst_device_ops **ops);
/* "auto": the first in the list that does not reject this world. */
pst_status pst_registry_transport(const char *name, const pst_world *world, const pst_transport_ops **ops);
/* Whether that transport can join n_rank ranks of this world: `self` needs all in one process, others one in each. */
pst_status pst_registry_joins(const char *name, const pst_world *world, uint32_t n_rank);
/* The first world whose launcher is there; `single` always is. */
const pst_world_ops *pst_registry_world(void);

/* All kernel rows, best first; index is what pst_step.kernel holds. */
uint32_t pst_registry_kernel_count(void);
const pst_kernel_row *pst_registry_kernel(uint32_t index);
/* The kernel for a pass of a node (extra: as in pst_chooser) on a device of this instruction set. */
pst_status pst_registry_choose_kernel(const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                                      const pst_device *device, uint32_t *index);
/* Names of a list for --help and doctor: kind is "device", "transport", "world", "model", "preset" (of all models),
 * "data", "schedule" or "optimizer"; i counts from 0; NULL after the last. */
const char *pst_registry_name(const char *kind, uint32_t i);
/* Why entry i of a "device", "transport" or "world" list cannot be used on this machine; NULL when it can. */
const char *pst_registry_reject(const char *kind, uint32_t i);
#endif
