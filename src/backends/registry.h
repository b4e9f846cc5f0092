/* Ordered lists of all backends. Only registry.c includes every backend: a new one is a file of its
 * own and a row there. Backends are chosen once, at set-up; log level debug shows why each
 * candidate was skipped. */
#ifndef PST_BACKENDS_REGISTRY_H
#define PST_BACKENDS_REGISTRY_H
#include "base/device.h"
#include "base/transport.h"
#include "base/world.h"
#include "data/data.h"
#include "kernels/kernel.h"
#include "kernels/module.h"
#include "models/model.h"

/* Finds a row by name. EINPUT: no such row; the message lists the valid names and the most similar
 * one. */
pst_status pst_registry_model(const char *name, const pst_model_row **row);
pst_status pst_registry_data(const char *name, const pst_data_row **row);
/* The shape of one sample of the configured data set, without opening its files, except those of
 * its tokenizer. All 0 for data.kind custom. */
pst_status pst_registry_shape(const pst_config *config, pst_data_shape *shape);
/* Finds a device by name. "auto": the accelerator module's device if it is usable on this machine,
 * else the CPU. EINPUT: no such device, or it is not usable. */
pst_status pst_registry_device(const char *name, const pst_device_config *config,
                               const pst_device_ops **ops);
/* The GPU device of a job that is only planned or inspected here: the module's device, even if this
 * machine has no GPU; if the module cannot be loaded, a row that has only a name and flags. NULL:
 * `name` is a CPU device. */
const pst_device_ops *pst_registry_gpu(const char *name);
/* Finds a host-memory transport by name. "auto", or the name of a module's transport for device
 * memory, which works on top of a host-memory transport: the first that accepts this world. EINPUT:
 * no such transport, or it does not accept the world. */
pst_status pst_registry_transport(const char *name, const pst_world *world,
                                  const pst_transport_ops **ops);
/* Checks whether the transport can connect n_rank ranks of this world: `self` needs all ranks in
 * one process, other transports one rank per process. EINPUT: it cannot. */
pst_status pst_registry_joins(const char *name, const pst_world *world, uint32_t n_rank);
/* Finds the module's transport for device memory; *direct is NULL for the name of any other
 * transport. ranks_here: ranks of the job on this host. EINPUT: the transport is not usable, or
 * `device` does not belong to the module. */
pst_status pst_registry_direct(const char *name, const pst_device_ops *device, uint32_t ranks_here,
                               const pst_direct_ops **direct);
/* The first world whose launcher started this process; `single` always applies. */
const pst_world_ops *pst_registry_world(void);

/* The kernel row with this number (pst_step.kernel). */
const pst_kernel_row *pst_registry_kernel(uint32_t index);
/* Chooses the kernel for one pass of a node. Of `device` only ops (NULL: the host's processors) and
 * isa are used; extra: as in pst_chooser. A module's device uses only the module's kernels, other
 * devices those of kernels/cpu and kernels/ref. *index: number of the kernel row. EINPUT,
 * EINTERNAL: no kernel accepts the node. */
pst_status pst_registry_choose_kernel(const pst_graph *g, const pst_node *node, int extra,
                                      pst_pass pass, const pst_device *device, uint32_t *index);
/* Functions for the flush of a step (sums, norms, optimizer) in this device's memory; those of the
 * CPU if the device computes on the CPU. */
const pst_arith *pst_registry_arith(const pst_device_ops *device);
/* Functions that set and read the autotuning results of a device's kernels; NULL: its kernels are
 * not autotuned. */
const pst_choice_ops *pst_registry_choices(const pst_device_ops *device);
/* 1: kernels of the host compute for this device; 0: kernels of a module. */
int pst_registry_is_host(const pst_device_ops *device);
/* Names of the rows of a list, for --help and doctor. kind: "device", "transport", "world",
 * "model", "preset" (of all models), "data", "schedule" or "optimizer"; i counts from 0; NULL after
 * the last one. */
const char *pst_registry_name(const char *kind, uint32_t i);
/* Why row i of the list "device", "transport" or "world" is not usable on this machine; NULL: it is
 * usable. */
const char *pst_registry_reject(const char *kind, uint32_t i);
#endif
