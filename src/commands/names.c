/* Names that options and keys accept, for help and completion. */
#include "backends/registry.h"
#include "commands/bench.h"
#include "penstock/option.h"
#include "pipeline/schedule/schedule.h"
#include <string.h>

/* Schedules that a run can name; `forward` is used by evaluation only. */
const char *pst_builtin_name(const char *kind, size_t i) {
    const char *name;
    if (!strcmp(kind, "suite")) return pst_bench_suite_name((uint32_t)i);
    for (uint32_t at = 0; (name = pst_registry_name(kind, at)); at++) {
        if (!strcmp(kind, "schedule") && pst_schedule_kind_of(name) == PST_SCHEDULE_FORWARD)
            continue;
        if (i-- == 0) return name;
    }
    return NULL;
}
