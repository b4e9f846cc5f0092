/* What this process may use of the machine: processors and memory. */
#ifndef PST_BACKENDS_MACHINE_H
#define PST_BACKENDS_MACHINE_H
#include <stddef.h>
#include <stdint.h>

/* Processors in this process's affinity mask, at least 1. */
uint32_t pst_machine_cpus(void);
/* Threads per rank when `ranks` ranks share these processors; at least 1. For ranks that another
 * launcher started see pst_placement_threads. */
uint32_t pst_machine_threads(uint32_t ranks);
/* Bytes of memory that this process can still allocate: the machine's available memory, limited by
 * cgroups (v2). 0: unknown. */
uint64_t pst_machine_memory(void);
/* Writes the processor's model name from /proc/cpuinfo, or "unknown", to name. Returns name. */
const char *pst_machine_cpu_model(char *name, size_t bytes);
#endif
