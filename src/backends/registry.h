/* The ordered lists of all backends; the only file that includes them all. A new backend is its own
 * file and a row here. A choice is made once, at setup; at log level debug the chooser says why
 * each candidate was skipped. */
#ifndef PST_BACKENDS_REGISTRY_H
#define PST_BACKENDS_REGISTRY_H
#include "base/device.h"
#include "base/transport.h"
#include "base/world.h"
#include "data/data.h"
#include "kernels/kernel.h"
#include "kernels/module.h"
#include "models/model.h"

/* By name; EINPUT lists the names and the most similar one. */
pst_status pst_registry_model(const char *name, const pst_model_row **row);
pst_status pst_registry_data(const char *name, const pst_data_row **row);
/* The shapes of a run's samples, without opening files; all 0 for data.kind custom. */
pst_status pst_registry_shape(const pst_config *config, pst_data_shape *shape);
/* "auto": a module's device if one can be used, else the CPU. */
pst_status pst_registry_device(const char *name, const pst_device_config *config,
                               const pst_device_ops **ops);
/* The same for a machine with GPUs, for jobs that are only inspected: the module's device, even if
 * it cannot be opened here; if the module cannot be loaded, a device with its flags only. NULL:
 * `name` is a CPU's. */
const pst_device_ops *pst_registry_gpu(const char *name);
/* "auto": the first one that accepts this world; also for a transport between devices, which works
 * on top of it. */
pst_status pst_registry_transport(const char *name, const pst_world *world,
                                  const pst_transport_ops **ops);
/* Whether the transport can connect n_rank ranks of this world: `self` needs all in one process,
 * others one rank per process. */
pst_status pst_registry_joins(const char *name, const pst_world *world, uint32_t n_rank);
/* The module's transport of that name, for the device memory of a job with this number of ranks on
 * this host; NULL for other names. EINPUT: it cannot be used, or the device is not the module's. */
pst_status pst_registry_direct(const char *name, const pst_device_ops *device, uint32_t ranks_here,
                               const pst_direct_ops **direct);
/* The first world whose launcher started this process; `single` always applies. */
const pst_world_ops *pst_registry_world(void);

/* Kernel row by number, as in pst_step.kernel. */
const pst_kernel_row *pst_registry_kernel(uint32_t index);
/* The kernel for a pass of a node (extra: as in pst_chooser) on this kind of device (ops; NULL: the
 * host) and instruction set. On a module's device only the module's rows compute; on all others
 * those of cpu/ and ref/. */
pst_status pst_registry_choose_kernel(const pst_graph *g, const pst_node *node, int extra,
                                      pst_pass pass, const pst_device *device, uint32_t *index);
/* The arithmetic of the end of a step on this device; the CPU's if the CPU computes. */
const pst_arith *pst_registry_arith(const pst_device_ops *device);
/* How its kernels' autotuned choices are set and read; NULL: there are none. */
const pst_choice_ops *pst_registry_choices(const pst_device_ops *device);
/* 1: the host's rows compute for this device; 0: a module's. */
int pst_registry_is_host(const pst_device_ops *device);
/* Names in a list, for --help and doctor. kind: "device", "transport", "world", "model", "preset"
 * (of all models), "data", "schedule" or "optimizer"; i counts from 0; NULL after the last one. */
const char *pst_registry_name(const char *kind, uint32_t i);
/* Why entry i of a "device", "transport" or "world" list cannot be used on this machine; NULL: it
 * can. */
const char *pst_registry_reject(const char *kind, uint32_t i);
#endif
