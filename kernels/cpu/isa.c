/* Which instruction sets kernels may use: those that the processor has and whose registers the
 * operating system saves, limited by PENSTOCK_ISA. */
#include "kernels/kernel.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t isa;
} levels[] = {{"generic", 0},
              {"avx2", PST_ISA_AVX2},
              {"avx512", PST_ISA_AVX2 | PST_ISA_AVX512},
              {"avx512_bf16", PST_ISA_AVX2 | PST_ISA_AVX512 | PST_ISA_AVX512_BF16}};
enum { LEVELS = sizeof levels / sizeof *levels };

static uint32_t isa_of_machine(void) {
    uint32_t isa = 0;
    __builtin_cpu_init(); /* also checks which registers the operating system saves */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isa |= PST_ISA_AVX2;
    if (isa && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        isa |= PST_ISA_AVX512;
    if ((isa & PST_ISA_AVX512) && __builtin_cpu_supports("avx512bf16")) isa |= PST_ISA_AVX512_BF16;
    if (isa && __builtin_cpu_supports("f16c")) isa |= PST_ISA_F16C;
    return isa;
}

/* The level's index; LEVELS if no level has that name. */
static int find(const char *level) {
    int i = 0;
    while (i < LEVELS && strcmp(levels[i].name, level)) i++;
    return i;
}

uint32_t pst_isa_lower(uint32_t machine, const char *level) {
    int i = level && *level ? find(level) : LEVELS;
    if (i == LEVELS) return machine;
    return machine & (levels[i].isa ? levels[i].isa | PST_ISA_F16C : 0);
}

pst_status pst_isa_check(uint32_t machine, const char *level) {
    if (!level || !*level) return PST_OK;
    int i = find(level);
    if (i == LEVELS)
        return pst_fail(PST_EINPUT,
                        "PENSTOCK_ISA is '%.40s'; it can be generic, avx2, avx512 (without bf16) "
                        "or avx512_bf16",
                        level);
    if (levels[i].isa & ~machine)
        return pst_fail(
            PST_EINPUT,
            "PENSTOCK_ISA is %s, but this CPU supports at most %s; the variable can only lower the "
            "instruction set: unset it",
            level, pst_isa_name(machine));
    return PST_OK;
}

uint32_t pst_cpu_isa(void) { return pst_isa_lower(isa_of_machine(), getenv("PENSTOCK_ISA")); }

pst_status pst_cpu_isa_check(void) {
    return pst_isa_check(isa_of_machine(), getenv("PENSTOCK_ISA"));
}

const char *pst_cpu_no_bf16(void) {
    if (pst_cpu_isa() & PST_ISA_AVX512_BF16) return NULL;
    return isa_of_machine() & PST_ISA_AVX512_BF16 ? "PENSTOCK_ISA hides" : "this CPU lacks";
}

const char *pst_isa_name(uint32_t isa) {
    int i = LEVELS - 1;
    while (levels[i].isa & ~isa) i--;
    return levels[i].name;
}
