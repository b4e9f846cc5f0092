# libpenstock-cuda.so: kernels/cuda/ as a module that the program loads when it is asked for a GPU (kernels/module.h).
# PENSTOCK_CUDA=AUTO builds it where compiler and libraries are, OFF does not look for them, ON insists. Nothing else
# needs them, and a machine without them runs what was built elsewhere on its processors.
set(PENSTOCK_CUDA AUTO CACHE STRING "build the CUDA module: AUTO (where nvcc, cuBLASLt and cuDNN are), ON or OFF")
set_property(CACHE PENSTOCK_CUDA PROPERTY STRINGS AUTO ON OFF)

# pst_cuda_find(WHY): enables the language and finds what the module is linked with; WHY is empty, or what is missing.
macro(pst_cuda_find why)
  set(${why} "")
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES) # A100, H100 and H200, B200; later ones compile the last one's PTX
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 100-virtual)
  endif()
  find_package(CUDAToolkit QUIET) # knows more places than PATH
  if(CUDAToolkit_NVCC_EXECUTABLE AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  check_language(CUDA) # tries it with the compiler of C++ that it would use
  if(NOT CMAKE_CUDA_COMPILER)
    set(${why} "no nvcc that works")
  else()
    enable_language(CUDA)
    find_package(CUDAToolkit)
    find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(CUDNN_LIB cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
    find_path(NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
      set(${why} "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.8 at least, for sm_100")
    elseif(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
      set(${why} "the toolkit of nvcc has no cuBLASLt or no static runtime")
    elseif(NOT CUDNN_INCLUDE OR NOT CUDNN_LIB)
      set(${why} "no cuDNN (cudnn.h, libcudnn.so)")
    endif()
  endif()
endmacro()

if(PENSTOCK_CUDA STREQUAL "OFF")
  file(REMOVE ${CMAKE_BINARY_DIR}/libpenstock-cuda.so) # of an earlier build, and of other tables
  return()
endif()
if(PST_SANITIZE)
  set(cuda_why "the sanitizers do not know the driver's memory")
else()
  pst_cuda_find(cuda_why)
endif()
if(cuda_why)
  if(PENSTOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_CUDA=ON: ${cuda_why}")
  endif()
  message(STATUS "CUDA module: not built: ${cuda_why}")
  return()
endif()

if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
file(GLOB cuda_sources CONFIGURE_DEPENDS kernels/cuda/*.c kernels/cuda/*.cu kernels/cuda/nccl/*.c)
add_library(penstock_cuda MODULE ${cuda_sources} kernels/rope.c kernels/module_host.c)
set_target_properties(penstock_cuda PROPERTIES OUTPUT_NAME penstock-cuda CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
  CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE C INSTALL_RPATH_USE_LINK_PATH ON
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/module.map)
target_include_directories(penstock_cuda PRIVATE include src .)
target_include_directories(penstock_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE) # the library itself is loaded when its transport is asked for
  target_include_directories(penstock_cuda SYSTEM PRIVATE ${NCCL_INCLUDE})
  target_compile_definitions(penstock_cuda PRIVATE PST_NCCL)
else()
  message(STATUS "CUDA module: without the nccl transport: no nccl.h")
endif()
# -fmad=false as -ffp-contract=off: where fusing helps, kernels say fmaf.
target_compile_options(penstock_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -Xcompiler=-Wall,-Wextra,-Wshadow>)
if(PST_TESTS) # kernels.cuda_registers reads what ptxas says of them
  target_compile_options(penstock_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
  set(cuda_launcher sh ${CMAKE_SOURCE_DIR}/tests/kernels/ptxas.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(penstock_cuda PROPERTIES CUDA_COMPILER_LAUNCHER "${cuda_launcher}")
endif()
# What it uses of the folders below it comes in from their archives, objects that are needed only. Errors and log lines
# are the host's (module_host.c): a second status.c would be a symbol that is there twice, and not link.
target_link_libraries(penstock_cuda PRIVATE pst_graph pst_base CUDA::cublasLt ${CUDNN_LIB} CUDA::cudart_static)
target_link_options(penstock_cuda PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/kernels/cuda/module.map -Wl,-z,defs
  -Wl,--as-needed)
install(TARGETS penstock_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
message(STATUS "CUDA module: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, ${CUDNN_LIB}")
