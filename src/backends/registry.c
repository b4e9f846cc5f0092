/* See registry.h. Lists are in order of preference. */
#include "backends/registry.h"
#include "backends/module.h"
#include "base/log.h"
#include "comm/transport/transport.h"
#include "comm/world/world.h"
#include "config/config.h"
#include "graph/optim.h"
#include "penstock/option.h"
#include "penstock/run.h"
#include "pipeline/compile/cut.h"
#include "pipeline/execute/timed.h"
#include <stdlib.h>
#include <string.h>

static const pst_model_row *const models[] = {&pst_model_gpt, &pst_model_llama, &pst_model_bert,
                                              &pst_model_mlp, &pst_model_resnet};
static const pst_data_row *const datas[] = {&pst_data_text,   &pst_data_tokens, &pst_data_lines,
                                            &pst_data_labels, &pst_data_chat,   &pst_data_mnist,
                                            &pst_data_cifar10};
/* The module's device is not in this list; it is preferred if it can be used. */
static const pst_device_ops *const devices[] = {&pst_device_cpu, &pst_device_timed};
/* `self` is not in this list: it connects ranks of one process through a hub and has to be asked
 * for by name (group/group.c). Nor is a module's transport for device memory, which works on top of
 * one of these. */
static const pst_transport_ops *const transports[] = {&pst_transport_ucx};
static const char *const more[] = {"self", "nccl"};
static const pst_world_ops *const worlds[] = {&pst_world_pmix, &pst_world_tcp, &pst_world_single};

#define COUNT(list) (uint32_t)(sizeof(list) / sizeof((list)[0]))
enum { MAX_NAMES = 32 };

const char *pst_registry_name(const char *kind, uint32_t i) {
    if (!strcmp(kind, "device") && i == COUNT(devices)) return pst_module_name();
    if (!strcmp(kind, "device")) return i < COUNT(devices) ? devices[i]->name : NULL;
    if (!strcmp(kind, "transport") && i < COUNT(transports)) return transports[i]->name;
    if (!strcmp(kind, "transport"))
        return i - COUNT(transports) < COUNT(more) ? more[i - COUNT(transports)] : NULL;
    if (!strcmp(kind, "world")) return i < COUNT(worlds) ? worlds[i]->name : NULL;
    if (!strcmp(kind, "model")) return i < COUNT(models) ? models[i]->name : NULL;
    for (uint32_t m = 0; !strcmp(kind, "preset") && m < COUNT(models); i -= models[m++]->n_preset)
        if (i < models[m]->n_preset) return models[m]->presets[i].name;
    if (!strcmp(kind, "data")) return i < COUNT(datas) ? datas[i]->name : NULL;
    if (!strcmp(kind, "optimizer")) return i < PST_OPTIM_COUNT ? pst_optim_rows()[i].name : NULL;
    if (!strcmp(kind, "schedule")) return pst_schedule_name(i);
    return NULL;
}

/* Why the module's device is not usable, or why the module cannot be loaded. NULL: usable. */
static const char *reject_module(const pst_device_config *config) {
    const pst_module *m = pst_module_get();
    if (!m) return pst_module_why();
    return m->device->reject ? m->device->reject(config) : NULL;
}

/* Why the module's transport with this name is not usable by that number of ranks on this host.
 * NULL: usable. */
static const char *reject_direct(const char *name, uint32_t ranks_here) {
    const pst_module *m = pst_module_get();
    if (!m) return pst_module_why();
    if (!m->direct || strcmp(m->direct->name, name))
        return "the accelerator module was built without this transport";
    return m->direct->reject(ranks_here);
}

const char *pst_registry_reject(const char *kind, uint32_t i) {
    if (!strcmp(kind, "device") && i <= COUNT(devices)) {
        const pst_device_config config = {.threads = 1};
        if (i == COUNT(devices)) return reject_module(&config);
        return devices[i]->reject ? devices[i]->reject(&config) : NULL;
    }
    if (!strcmp(kind, "transport") && i < COUNT(transports)) {
        /* number of ranks on this host */
        const pst_world two = {.ops = &pst_world_single, .size = 2, .local_size = 2};
        return transports[i]->reject ? transports[i]->reject(&two) : NULL;
    }
    if (!strcmp(kind, "transport") && i == COUNT(transports) + 1) return reject_direct(more[1], 2);
    if (!strcmp(kind, "world") && i < COUNT(worlds))
        return worlds[i]->reject ? worlds[i]->reject() : NULL;
    return NULL;
}

/* The message for a name that is in no list. */
static pst_status unknown(const char *kind, const char *name) {
    const char *names[MAX_NAMES];
    char list[256] = "";
    uint32_t n = 0;
    while (n < MAX_NAMES && pst_registry_name(kind, n)) {
        names[n] = pst_registry_name(kind, n);
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    const char *meant = pst_did_you_mean(name, names, n);
    if (meant)
        return pst_fail(PST_EINPUT, "unknown %s '%s'; did you mean '%s'? Expected one of %s", kind,
                        name, meant, list);
    return pst_fail(PST_EINPUT, "unknown %s '%s'; expected one of %s", kind, name, list);
}

pst_status pst_registry_model(const char *name, const pst_model_row **row) {
    for (uint32_t i = 0; i < COUNT(models); i++)
        if (!strcmp(models[i]->name, name)) {
            *row = models[i];
            return PST_OK;
        }
    return unknown("model", name);
}

pst_status pst_registry_shape(const pst_config *config, pst_data_shape *shape) {
    const pst_data_row *row = NULL;
    *shape = (pst_data_shape){0};
    if (!strcmp(config->data.kind, "custom")) return PST_OK;
    PST_TRY(pst_registry_data(config->data.kind, &row));
    return row->shape(config->data.tokenizer, shape);
}

pst_status pst_registry_data(const char *name, const pst_data_row **row) {
    for (uint32_t i = 0; i < COUNT(datas); i++)
        if (!strcmp(datas[i]->name, name)) {
            *row = datas[i];
            return PST_OK;
        }
    return unknown("data", name);
}

static int is_listed(const char *name) {
    for (uint32_t i = 0; i < COUNT(devices); i++)
        if (!strcmp(name, devices[i]->name)) return 1;
    return 0;
}

const pst_device_ops *pst_registry_gpu(const char *name) {
    static const pst_device_ops elsewhere = {.name = "cuda", .flags = PST_DEVICE_GPU};
    if (is_listed(name)) return NULL;
    return pst_module_get() ? pst_module_get()->device : &elsewhere;
}

/* 1: use the module's device: it was requested by name, or "auto" was requested and it is
 * usable. */
static int take_module(const char *name, const pst_device_config *config, const char **why) {
    int automatic = !strcmp(name, "auto");
    *why = NULL;
    if (is_listed(name)) return 0; /* no module is loaded for these */
    if (automatic && !pst_module_there()) return 0;
    if (!automatic && pst_module_name() && strcmp(name, pst_module_name())) return 0;
    *why = reject_module(config);
    if (*why)
        pst_log(PST_LOG_DEBUG, "device %s skipped: %s", pst_module_get() ? pst_module_name() : name,
                *why);
    return !automatic || !*why;
}

pst_status pst_registry_device(const char *name, const pst_device_config *config,
                               const pst_device_ops **ops) {
    int automatic = !strcmp(name, "auto");
    const char *why;
    if (take_module(name, config, &why)) {
        if (why) return pst_fail(PST_EINPUT, "device %s: %s", name, why);
        pst_log(PST_LOG_DEBUG, "device %s: chosen", pst_module_get()->name);
        *ops = pst_module_get()->device;
        return PST_OK;
    }
    for (uint32_t i = 0; i < COUNT(devices); i++) {
        if (!automatic && strcmp(devices[i]->name, name)) continue;
        why = devices[i]->reject ? devices[i]->reject(config) : NULL;
        if (!why) {
            pst_log(PST_LOG_DEBUG, "device %s: chosen", devices[i]->name);
            *ops = devices[i];
            return PST_OK;
        }
        if (!automatic) return pst_fail(PST_EINPUT, "device %s: %s", name, why);
        pst_log(PST_LOG_DEBUG, "device %s skipped: %s", devices[i]->name, why);
    }
    return unknown("device", name);
}

pst_status pst_registry_direct(const char *name, const pst_device_ops *device, uint32_t ranks_here,
                               const pst_direct_ops **direct) {
    *direct = NULL;
    if (strcmp(name, more[1])) return PST_OK;
    if (!pst_module_has(device))
        return pst_fail(PST_EINPUT,
                        "transport %s needs a GPU, but device %s is not a GPU; use transport auto",
                        name, device ? device->name : "cpu");
    const char *why = reject_direct(name, ranks_here);
    if (why) return pst_fail(PST_EINPUT, "transport %s: %s", name, why);
    *direct = pst_module_get()->direct;
    return PST_OK;
}

pst_status pst_registry_transport(const char *name, const pst_world *world,
                                  const pst_transport_ops **ops) {
    int automatic = !strcmp(name, "auto") || !strcmp(name, more[1]);
    for (uint32_t i = 0; i < COUNT(transports); i++) {
        if (!automatic && strcmp(transports[i]->name, name)) continue;
        const char *why = transports[i]->reject ? transports[i]->reject(world) : NULL;
        if (!why) {
            pst_log(PST_LOG_DEBUG, "transport %s: chosen", transports[i]->name);
            *ops = transports[i];
            return PST_OK;
        }
        if (!automatic) return pst_fail(PST_EINPUT, "transport %s: %s", name, why);
        pst_log(PST_LOG_DEBUG, "transport %s skipped: %s", transports[i]->name, why);
    }
    return unknown("transport", name);
}

pst_status pst_registry_joins(const char *name, const pst_world *world, uint32_t n_rank) {
    int self = !strcmp(name, "self");
    if (self && world->size > 1)
        return pst_fail(PST_EINPUT,
                        "transport self needs all ranks in one process, but this job has %u "
                        "processes; use transport auto",
                        world->size);
    if (!self && strcmp(name, "auto") && world->size == 1 && n_rank > 1)
        return pst_fail(PST_EINPUT,
                        "transport %s needs one process per rank, but all %u ranks are in this "
                        "process; use auto or self, or start the program with mpirun -n %u",
                        name, n_rank, n_rank);
    return PST_OK;
}

const pst_world_ops *pst_registry_world(void) {
    for (uint32_t i = 0; i + 1 < COUNT(worlds); i++) {
        const char *why = worlds[i]->reject ? worlds[i]->reject() : NULL;
        if (!why) return worlds[i];
        pst_log(PST_LOG_DEBUG, "world %s skipped: %s", worlds[i]->name, why);
    }
    return worlds[COUNT(worlds) - 1];
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* Rows of the host: kernels/cpu/, then kernels/ref/; a loaded module's rows follow. */
static uint32_t count_host(void) {
    uint32_t cpu, ref;
    pst_kernels_cpu(&cpu);
    pst_kernels_ref(&ref);
    return cpu + ref;
}

const pst_kernel_row *pst_registry_kernel(uint32_t index) {
    uint32_t cpu, ref, host = count_host();
    const pst_kernel_row *first = pst_kernels_cpu(&cpu), *second = pst_kernels_ref(&ref);
    if (index >= host) return pst_module_get()->kernel + (index - host);
    return index < cpu ? first + index : second + (index - cpu);
}

const pst_arith *pst_registry_arith(const pst_device_ops *device) {
    return pst_module_has(device) ? pst_module_get()->arith : &pst_arith_cpu;
}

const pst_choice_ops *pst_registry_choices(const pst_device_ops *device) {
    return pst_module_has(device) ? pst_module_get()->choices : NULL;
}

int pst_registry_is_host(const pst_device_ops *device) { return !pst_module_has(device); }

static const char *kernel_name(const pst_node *node, int extra) {
    if (extra == PST_EXTRA_SUM) return "sum";
    return extra == PST_EXTRA_RESTORE ? node->op->restore_kernel : node->op->name;
}

/* PENSTOCK_KERNELS=ref: the host computes with kernels/ref/ only, to compare with. */
static int only_reference(void) {
    const char *text = getenv("PENSTOCK_KERNELS");
    return text && !strcmp(text, "ref");
}

/* The first row for the host. */
static uint32_t first_host(void) {
    uint32_t cpu;
    pst_kernels_cpu(&cpu);
    return only_reference() ? cpu : 0;
}

/* NULL: the kernel accepts the node. */
static const char *reject_node(const pst_kernel_row *row, const pst_graph *g, const pst_node *node,
                               const pst_device *device) {
    if (!(row->dtypes >> g->dtype & 1)) return "the kernel does not support this precision";
    if (row->isa & ~device->isa) return "this CPU lacks the required instruction set";
    return row->reject ? row->reject(g, node, device) : NULL;
}

static int isolates(const pst_graph *g, const pst_node *node) {
    static const char *const ops[] = {"attention", "embedding", "rotary"};
    int reads = 0;
    for (uint32_t i = 0; i < COUNT(ops); i++) reads |= !strcmp(node->op->name, ops[i]);
    return reads && pst_node_has_starts(g, node);
}

pst_status pst_registry_choose_kernel(const pst_graph *g, const pst_node *node, int extra,
                                      pst_pass pass, const pst_device *device, uint32_t *index) {
    const char *op = kernel_name(node, extra);
    int module = pst_module_has(device->ops);
    if (module && isolates(g, node))
        return pst_fail(PST_EINPUT,
                        "device %s cannot keep documents apart (data.isolate): its kernels attend "
                        "to the whole sample; use parallel.device=cpu or data.isolate=false",
                        device->ops->name);
    uint32_t first = module ? count_host() : first_host(),
             end = module ? first + pst_module_get()->n_kernel : count_host();
    for (uint32_t i = first; i < end; i++) {
        const pst_kernel_row *row = pst_registry_kernel(i);
        if (strcmp(row->op, op) || (extra != PST_EXTRA_SUM && row->pass != pass)) continue;
        const char *why = reject_node(row, g, node, device);
        if (!why) {
            *index = i;
            return PST_OK;
        }
        pst_log(PST_LOG_DEBUG, "%s: kernel %s skipped: %s", node->name, row->name, why);
    }
    if (module)
        return pst_fail(PST_EINPUT,
                        "device %s has no kernel for operator %s, pass %c (node %s, precision %s)",
                        device->ops->name, op, "FBW"[pass], node -> name, pst_dtype_name(g->dtype));
    return pst_fail(PST_EINTERNAL, "no kernel for operator %s, pass %c (node %s)", op, "FBW"[pass],
                    node -> name);
}
