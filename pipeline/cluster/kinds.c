/* Device kinds by name. Peaks are those of data sheets for dense matrices (no sparsity), of the
 * modules with NVLink (SXM). fp32 is the peak of the fp32 units, without TF32. Memory is the data
 * sheet's in GB of 10^9 bytes; chips have a few percent more (H100: 85.5e9), about what driver,
 * context and libraries take. NVLink rates are for one direction, half of the data sheet's.
 * Latencies that are not given are the usual ones of a message between programs, launch included.
 *
 *   V100       nvidia.com, V100 data sheet (V100 SXM2 32 GB): 15.7 and 125 TFLOPS, 900 GB/s, NVLink
 *              300 GB/s
 *   A100       A100 Tensor Core GPU data sheet: 19.5, 156 (TF32) and 312 TFLOPS, 1,555 and 2,039
 *              GB/s, NVLink 600 GB/s
 *   H100       H100 Tensor Core GPU data sheet (SXM): 67, 989 / 2 (TF32), 1,979 / 2 and 3,958 / 2
 *              (FP8) TFLOPS, 3.35 TB/s, NVLink 900 GB/s
 *   H200       H200 Tensor Core GPU data sheet (SXM): as H100, 141 GB, 4.8 TB/s
 *   B200       HGX B200 (an eighth of it): 75, 2,250 / 2 (TF32), 4,500 / 2 and 9,000 / 2 (FP8)
 *              TFLOPS, 180 GB, 8 TB/s (DGX B200: 64 TB/s), NVLink 1.8 TB/s
 *   cpu        one core, with the figures of partition/balance/solve.c for every precision;
 *              within a host, shared memory */
#include "penstock/option.h"
#include <stdio.h>
#include "pipeline/cluster/parts.h"
#include <string.h>
#include <strings.h>

enum { NVLINK_NS = 5000, SHARED_NS = 30000 };
#define FLOPS(fp32, tf32, bf16_, fp16_, fp8)                                                       \
    {                                                                                              \
        [PST_F32] = (fp32)*1e12, [PST_TF32] = (tf32)*1e12, [PST_BF16] = (bf16_)*1e12,              \
        [PST_F16] = (fp16_)*1e12, [PST_F8] = (fp8)*1e12                                            \
    }
#define GB UINT64_C(1000000000)

static const pst_device_kind kinds[] = {
    {"cpu", FLOPS(0.08, 0, 0.08, 0.08, 0), 8e9, 0, {SHARED_NS, 4e9}},
    {"V100", FLOPS(15.7, 0, 0, 125, 0), 900e9, 32 * GB, {NVLINK_NS, 150e9}},
    {"A100-40", FLOPS(19.5, 156, 312, 312, 0), 1555e9, 40 * GB, {NVLINK_NS, 300e9}},
    {"A100-80", FLOPS(19.5, 156, 312, 312, 0), 2039e9, 80 * GB, {NVLINK_NS, 300e9}},
    {"H100", FLOPS(67, 494.5, 989.5, 989.5, 1979), 3350e9, 80 * GB, {NVLINK_NS, 450e9}},
    {"H200", FLOPS(67, 494.5, 989.5, 989.5, 1979), 4800e9, 141 * GB, {NVLINK_NS, 450e9}},
    {"B200", FLOPS(75, 1125, 2250, 2250, 4500), 8000e9, 180 * GB, {NVLINK_NS, 900e9}},
};
enum { N_KIND = sizeof kinds / sizeof *kinds };

const pst_device_kind *pst_device_kinds(uint32_t *n) {
    *n = N_KIND;
    return kinds;
}

/* The names that begin with `name`, or all: "'A100-40' or 'A100-80'", "cpu, V100". Returns how
 * many. */
static uint32_t list_kinds(const char *const *names, uint32_t n, const char *name, char *text,
                           size_t bytes) {
    uint32_t n_said = 0, n_left = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *quote = *name ? "'" : "", *between = *name ? " or " : ", ";
        size_t at = strlen(text);
        if (strncasecmp(name, names[i], strlen(name))) continue;
        if (at + strlen(names[i]) + 32 > bytes) n_left++;
        else {
            n_said++;
            snprintf(text + at, bytes - at, "%s%s%s%s", at ? between : "", quote, names[i], quote);
        }
    }
    if (n_left) snprintf(text + strlen(text), bytes - strlen(text), " and %u more", n_left);
    return n_said + n_left;
}

/* EINPUT with all names that begin with this one, else the most similar one, else all. */
static pst_status unknown_kind(const char *name, const char *const *names, uint32_t n) {
    char all[400] = "", alike[400] = "";
    const char *near = pst_did_you_mean(name, names, n);
    if (*name && list_kinds(names, n, name, alike, sizeof alike))
        return pst_fail(PST_EINPUT, "unknown kind of device '%.40s'; did you mean %s?", name,
                        alike);
    if (near)
        return pst_fail(PST_EINPUT, "unknown kind of device '%.40s'; did you mean '%s'?", name,
                        near);
    list_kinds(names, n, "", all, sizeof all);
    return pst_fail(PST_EINPUT, "unknown kind of device '%.40s'; expected one of %s", name, all);
}

pst_status pst_device_kind_find(const char *name, const pst_device_kind *own, uint32_t n_own,
                                const pst_device_kind **kind) {
    const char *names[PST_DEVICE_KINDS_OWN + N_KIND];
    uint32_t n = n_own < PST_DEVICE_KINDS_OWN ? n_own : PST_DEVICE_KINDS_OWN;
    for (uint32_t i = 0; i < n + N_KIND; i++) {
        const pst_device_kind *k = i < n ? &own[i] : &kinds[i - n];
        names[i] = k->name;
        if (!strcasecmp(name, k->name)) {
            *kind = k;
            return PST_OK;
        }
    }
    return unknown_kind(name, names, n + N_KIND);
}

/* --- links ------------------------------------------------------------------------------------ */

int pst_level_find(const char *name, pst_level *level, double *directions) {
    static const struct {
        const char *name;
        pst_level level;
        double directions;
    } names[] = {{"device", PST_LEVEL_DEVICE, 1}, {"nvlink", PST_LEVEL_DEVICE, 2},
                 {"pcie", PST_LEVEL_DEVICE, 1},   {"node", PST_LEVEL_NODE, 1},
                 {"nic", PST_LEVEL_NODE, 1},      {"ib", PST_LEVEL_NODE, 1},
                 {"ethernet", PST_LEVEL_NODE, 1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i].name)) continue;
        *level = names[i].level;
        *directions = names[i].directions;
        return 1;
    }
    return 0;
}
