/* What this process may use of the machine: processors and memory, as the kernel lets it. */
#ifndef PST_BACKENDS_MACHINE_H
#define PST_BACKENDS_MACHINE_H
#include <stddef.h>
#include <stdint.h>

/* Processors in this process's affinity mask, at least 1. */
uint32_t pst_machine_cpus(void);
/* Threads for each of `ranks` that share those processors, at least 1. Of ranks that somebody else
 * has started: pst_placement_threads. */
uint32_t pst_machine_threads(uint32_t ranks);
/* Bytes that are free: of the machine's memory, and of what cgroups (v2) leave. 0: not known. */
uint64_t pst_machine_memory(void);
/* The processor's name as the kernel tells it, "unknown" when it does not. Returns name. */
const char *pst_machine_cpu_model(char *name, size_t bytes);
#endif
