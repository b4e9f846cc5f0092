/* The ordered lists of every backend: the only file that sees them all. Adding a backend touches
 * its own file and its list here. A choice is made once at setup; at log level debug the chooser
 * says why each candidate was passed over. */
#ifndef PST_BACKENDS_REGISTRY_H
#define PST_BACKENDS_REGISTRY_H
#include "base/device.h"
#include "base/transport.h"
#include "base/world.h"
#include "data/data.h"
#include "kernels/kernel.h"
#include "kernels/module.h"
#include "models/model.h"

/* By name; EINPUT lists the names and says what was meant. */
pst_status pst_registry_model(const char *name, const pst_model_row **row);
pst_status pst_registry_data(const char *name, const pst_data_row **row);
/* What a run's samples are, without their files; all 0 for data.kind custom. */
pst_status pst_registry_shape(const pst_config *config, pst_data_shape *shape);
/* "auto": a module's where there is one that can be used, else the CPU. */
pst_status pst_registry_device(const char *name, const pst_device_config *config,
                               const pst_device_ops **ops);
/* Likewise of a machine with GPUs, for jobs that are looked at only: the module's, whether or not
 * it can open a device here; where it cannot be loaded, one that has its flags and no more. NULL:
 * `name` is a processor's. */
const pst_device_ops *pst_registry_gpu(const char *name);
/* "auto": the first in the list that does not reject this world; so, too, for a transport between
 * devices, which goes over it. */
pst_status pst_registry_transport(const char *name, const pst_world *world,
                                  const pst_transport_ops **ops);
/* Whether that transport can join n_rank ranks of this world: `self` needs all in one process,
 * others one in each. */
pst_status pst_registry_joins(const char *name, const pst_world *world, uint32_t n_rank);
/* The module's transport of that name, for the device memory of a job with so many ranks on this
 * host; NULL for other names. EINPUT: it cannot be used, or device is another one. */
pst_status pst_registry_direct(const char *name, const pst_device_ops *device, uint32_t ranks_here,
                               const pst_direct_ops **direct);
/* The first world whose launcher is there; `single` always is. */
const pst_world_ops *pst_registry_world(void);

/* Kernel rows by what pst_step.kernel holds. */
const pst_kernel_row *pst_registry_kernel(uint32_t index);
/* The kernel for a pass of a node (extra: as in pst_chooser) on a device of this kind (ops; NULL:
 * the host's) and instruction set. Rows of a module alone compute on its device, those of cpu/ and
 * ref/ on all others. */
pst_status pst_registry_choose_kernel(const pst_graph *g, const pst_node *node, int extra,
                                      pst_pass pass, const pst_device *device, uint32_t *index);
/* What computes a step's end there; where the CPU computes, its own. */
const pst_arith *pst_registry_arith(const pst_device_ops *device);
/* How its kernels' measured choices are given and taken; NULL: they make none. */
const pst_choice_ops *pst_registry_choices(const pst_device_ops *device);
/* 1 when the host's rows compute there, 0 when a module's do. */
int pst_registry_is_host(const pst_device_ops *device);
/* Names of a list for --help and doctor: kind is "device", "transport", "world", "model", "preset"
 * (of all models), "data", "schedule" or "optimizer"; i counts from 0; NULL after the last. */
const char *pst_registry_name(const char *kind, uint32_t i);
/* Why entry i of a "device", "transport" or "world" list cannot be used on this machine; NULL when
 * it can. */
const char *pst_registry_reject(const char *kind, uint32_t i);
#endif
