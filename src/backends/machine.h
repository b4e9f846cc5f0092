/* What this process may use of the machine: processors and memory. */
#ifndef PST_BACKENDS_MACHINE_H
#define PST_BACKENDS_MACHINE_H
#include <stddef.h>
#include <stdint.h>

/* Processors in this process's affinity mask, at least 1. */
uint32_t pst_machine_cpus(void);
/* Threads for each of `ranks` that share those processors, at least 1. For ranks started by another
 * launcher see pst_placement_threads. */
uint32_t pst_machine_threads(uint32_t ranks);
/* Free bytes: of the machine's memory, within the limits of cgroups (v2). 0: unknown. */
uint64_t pst_machine_memory(void);
/* The processor's name in /proc/cpuinfo, or "unknown". Returns name. */
const char *pst_machine_cpu_model(char *name, size_t bytes);
#endif
