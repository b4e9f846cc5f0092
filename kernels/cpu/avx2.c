/* The vector kernels compiled for AVX2 with FMA. Nothing here may run before isa.c has checked the
 * processor. */
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
#pragma GCC target("avx2,fma")
#define VEC_AVX2
#define VEC_NAME "avx2"
#define VEC_ISA PST_ISA_AVX2
#include "kernels/cpu/vec.h"

#include "kernels/cpu/product_vec.h"

#include "kernels/cpu/convolution_vec.h"

#include "kernels/cpu/linear_vec.h"

#include "kernels/cpu/random_vec.h"

#include "kernels/cpu/attention_vec.h"
#include "kernels/cpu/batch_norm_vec.h"
#include "kernels/cpu/cached_vec.h"
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

const pst_cpu_table *pst_cpu_avx2(void) { return &vec_table; }
