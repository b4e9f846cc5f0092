/* Device kinds by name. Peaks are those of data sheets for dense matrices (no sparsity), of the
 * modules with NVLink (SXM) where there are such. fp32 is the peak of the fp32 units, without TF32.
 * NVLink rates are for one direction, half of the data sheet's. Latencies that are not given are
 * the usual ones of a message between programs, launch included. watts: maximum power of the data
 * sheet.
 *
 *   V100       nvidia.com, V100 data sheet (V100 SXM2 32 GB): 15.7 and 125 TFLOPS, 900 GB/s, NVLink
 *              300 GB/s
 *   A100       A100 Tensor Core GPU data sheet: 19.5, 156 (TF32) and 312 TFLOPS, 1,555 and 2,039
 *              GB/s, NVLink 600 GB/s
 *   H100       H100 Tensor Core GPU data sheet (SXM): 67, 989 / 2 (TF32), 1,979 / 2 and 3,958 / 2
 *              (FP8) TFLOPS, 3.35 TB/s, NVLink 900 GB/s
 *   H200       H200 Tensor Core GPU data sheet (SXM): as H100, 4.8 TB/s
 *   B200       HGX B200 (an eighth of it): 75, 2,250 / 2 (TF32), 4,500 / 2 and 9,000 / 2 (FP8)
 *              TFLOPS, 8 TB/s (DGX B200: 64 TB/s), NVLink 1.8 TB/s
 *   GB200      GB200 NVL72 data sheet (a 72nd of it): 80, 2,500 / 2 (TF32), 5,000 / 2 and
 *              10,000 / 2 (FP8) TFLOPS, 8 TB/s, NVLink 1.8 TB/s; 1,200 W
 *   B300       HGX B300 (an eighth of it): as B200; 1,100 W is the limit that nvidia-smi prints
 *   L40S       L40S data sheet: 91.6, 183 (TF32), 362 and 733 (FP8) TFLOPS, 864 GB/s, PCIe 4.0 x16
 *   RTX-4090   Ada GPU architecture, appendix A: 82.6, 82.6 (TF32), 165.2 and 330.3 (FP8) TFLOPS
 *              with sums in fp32, 1,008 GB/s, PCIe 4.0 x16
 *   MI300X     Instinct MI300X data sheet: 163.4, 653.7 (TF32), 1,307.4 and 2,614.9 (FP8) TFLOPS,
 *              5.3 TB/s, seven Infinity Fabric links of 64 GB/s per direction, all of them together
 *              here. For planning: there are no kernels for it
 *   cpu        one core, with the figures of partition/balance/solve.c for every precision;
 *              within a host, shared memory
 *
 * Memory is what nvidia-smi prints as total: github.com/modal-labs/modal-client, pull request 2797
 * (A100, H100, L40S); vllm and TensorRT-LLM, issue 10278 (B200 183,359 MiB); other public logs
 * (H200 143,771, GB200 189,471, B300 275,040, RTX 4090 24,564 MiB; rocm-smi: MI300X 206,141,652,992
 * bytes).
 *
 * Reserved memory, the sum of
 *   - what nvidia-smi counts and CUDA does not show: 0.3 to 0.9 GiB, the difference to the total of
 *     cudaMemGetInfo in public logs (A100-80 81,050 MiB: pytorch/torchrec, pull request 3580; B200
 *     178.35 GiB: pytorch/ao, pull request 4002; H100 79.1, H200 139.8, A100-40 39.4, L40S 44.4,
 * RTX 4090 23.65 GiB)
 *   - the context: 0.5 GiB (pytorch/pytorch, issue 107667: about 0.3 GiB with kernels that are
 *     loaded when first used, more with all)
 *   - code of kernels, workspaces that libraries allocate themselves, CUDA graphs: 0.5 GiB, half of
 *     the reserve of kernels/cuda/cuda.h, which also covers NCCL; an estimate
 * and of each communicator 688 MiB (NVIDIA/nccl, issue 964: 544 MiB for two, 688 MiB for more of
 * four A100). A run on the device itself uses cudaMemGetInfo instead. */
#include "penstock/option.h"
#include <stdio.h>
#include "pipeline/cluster/parts.h"
#include <string.h>
#include <strings.h>

enum { NVLINK_NS = 5000, PCIE_NS = 10000, SHARED_NS = 30000 };
#define NAMED(text, a, b, c, d, e)                                                                 \
    .name = (text), .flops = {[PST_F32] = (a)*1e12,                                                \
                              [PST_TF32] = (b)*1e12,                                               \
                              [PST_BF16] = (c)*1e12,                                               \
                              [PST_F16] = (d)*1e12,                                                \
                              [PST_F8] = (e)*1e12}
/* Peaks of fp32, tf32, bf16, fp16, fp8 in TFLOP/s; memory in GB/s, MiB, and MiB reserved; latency
 * and rate of the link in ns and GB/s; watts. */
#define GPU(name, a, b, c, d, e, rate, mib, held, ns, link_rate, w)                                \
    {                                                                                              \
        NAMED(name, a, b, c, d, e), .bytes_per_s = (rate)*1e9, .memory = UINT64_C(mib) << 20,      \
                                    .link = {(ns), (link_rate)*1e9},                               \
                                    .reserved = UINT64_C(held) << 20,                              \
                                    .communicator = UINT64_C(688) << 20, .watts = (w)              \
    }

static const pst_device_kind kinds[] = {
    {NAMED("cpu", 0.08, 0, 0.08, 0.08, 0), .bytes_per_s = 8e9, .link = {SHARED_NS, 4e9}},
    GPU("V100", 15.7, 0, 0, 125, 0, 900, 32768, 1300, NVLINK_NS, 150, 300),
    GPU("A100-40", 19.5, 156, 312, 312, 0, 1555, 40960, 1650, NVLINK_NS, 300, 400),
    GPU("A100-80", 19.5, 156, 312, 312, 0, 2039, 81920, 1900, NVLINK_NS, 300, 400),
    GPU("H100", 67, 494.5, 989.5, 989.5, 1979, 3350, 81559, 1600, NVLINK_NS, 450, 700),
    GPU("H200", 67, 494.5, 989.5, 989.5, 1979, 4800, 143771, 1700, NVLINK_NS, 450, 700),
    GPU("B200", 75, 1125, 2250, 2250, 4500, 8000, 183359, 1750, NVLINK_NS, 900, 1000),
    GPU("GB200", 80, 1250, 2500, 2500, 5000, 8000, 189471, 1750, NVLINK_NS, 900, 1200),
    GPU("B300", 75, 1125, 2250, 2250, 4500, 8000, 275040, 1750, NVLINK_NS, 900, 1100),
    GPU("L40S", 91.6, 183, 362, 362, 733, 864, 46068, 1650, PCIE_NS, 32, 350),
    GPU("RTX-4090", 82.6, 82.6, 165.2, 165.2, 330.3, 1008, 24564, 1400, PCIE_NS, 32, 450),
    GPU("MI300X", 163.4, 653.7, 1307.4, 1307.4, 2614.9, 5300, 196592, 1300, NVLINK_NS, 448, 750),
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
    return pst_fail(
        PST_EINPUT,
        "unknown kind of device '%.40s'; expected one of %s; describe others in `kinds` "
        "of a cluster file: {name: x1, bf16: 300e12, bandwidth: 2TB/s, memory: 64GiB}",
        name, all);
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
