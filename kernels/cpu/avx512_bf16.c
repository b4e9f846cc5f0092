/* The vector kernels compiled for bf16 storage: AVX-512 (F, DQ, BW, VL) with BF16. Loads widen to
 * fp32, arithmetic is fp32, stores round to nearest even. Nothing here may run before isa.c has
 * checked the processor. */
#include "base/rng.h"
#include "graph/blocks.h"
#include "kernels/attention.h"
#include "kernels/codec.h"
#include "kernels/cpu/cpu.h"
#include "kernels/loss.h"
#include "kernels/lowrank.h"
#include "kernels/rope.h"
#include "kernels/shape.h"
#include <math.h>
#include <string.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,avx2,fma")
#define VEC_AVX512
#define VEC_BF16
#define VEC_NAME "avx512_bf16"
#define VEC_ISA (PST_ISA_AVX512 | PST_ISA_AVX512_BF16)
#include "kernels/cpu/vec.h"

#include "kernels/cpu/product_vec.h"

#include "kernels/cpu/convolution_vec.h"

#include "kernels/cpu/linear_vec.h"

#include "kernels/cpu/random_vec.h"

#include "kernels/cpu/attention_vec.h"
#include "kernels/cpu/batch_norm_vec.h"
#include "kernels/cpu/cross_entropy_vec.h"
#include "kernels/cpu/elementwise_vec.h"
#include "kernels/cpu/embedding_vec.h"
#include "kernels/cpu/flat_vec.h"
#include "kernels/cpu/codec_vec.h"
#include "kernels/cpu/gated_vec.h"
#include "kernels/cpu/image_vec.h"
#include "kernels/cpu/layer_norm_vec.h"
#include "kernels/cpu/rotary_vec.h"

#include "kernels/cpu/table_vec.h"
#pragma GCC pop_options

const pst_cpu_table *pst_cpu_avx512_bf16(void) { return &vec_table; }
