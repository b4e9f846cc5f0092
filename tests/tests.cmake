# Tests mirror the folders: tests/FOLDER/test_NAME.c is one CTest test FOLDER.NAME, one process, linked with the whole
# house; tests/FOLDER/test_NAME.sh is the same for programs, run with PENSTOCK and SOURCE_DIR set. One of the first
# three lines may say label, time limit in seconds, and that nothing may run beside it:
#     /* test: label=full timeout=300 serial */      (default: label=quick timeout=30; scripts: timeout=60)
# Tests of the folders that compute have the label isa as well: ./dev test --isa runs them at lower instruction sets. Where
# the result of such a test cannot depend on that (it plans, counts requests for memory, or is about processes, signals,
# transports or memory that the host cannot reach, where another test computes the same), isa=any says so.
# wrap=malloc,free,... sends the calls of these functions in our libraries to the test's own __wrap_malloc, ...
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(SETARCH setarch)
if(SETARCH)
  execute_process(COMMAND ${SETARCH} -R true RESULT_VARIABLE setarch_fails OUTPUT_QUIET ERROR_QUIET)
endif()

# pst_test(SOURCE LIMIT COMMAND...): registers FOLDER.NAME with what the head of SOURCE says.
function(pst_test source limit)
  get_filename_component(short ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  string(REGEX REPLACE "^(test|fuzz)_" "" short ${short})
  file(STRINGS ${source} lines LIMIT_COUNT 3)
  set(head "")
  foreach(line ${lines})
    if(line MATCHES "test: (.*)")
      set(head " ${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(label quick)
  if(head MATCHES " label=([a-z]+)")
    set(label ${CMAKE_MATCH_1})
  endif()
  if(head MATCHES " timeout=([0-9]+)")
    set(limit ${CMAKE_MATCH_1})
  endif()
  if(PST_SANITIZE)
    math(EXPR limit "${limit} * 5")
  endif()
  # The thread sanitizer finds nothing in components without threads, and takes ten times as long; sanitize=address says
  # the same of a test whose threads only do what those of another test do. The rules of the source tree hold for every
  # build.
  if((PST_SANITIZE STREQUAL "thread"
      AND (folder MATCHES "^(graph|config|fuzz|partition|planning|report|tokenizer)$" OR head MATCHES " sanitize=address"))
     OR (PST_SANITIZE AND folder STREQUAL "house"))
    set(label unsanitized)
  endif()
  if(folder MATCHES "^(cli|far|checkpoint|prepare|planning|health|group|metrics|rank|run|kernels|parity)$" AND NOT head MATCHES " isa=any")
    list(APPEND label isa)
  endif()
  set(environment "PENSTOCK=${CMAKE_BINARY_DIR}/penstock" "SOURCE_DIR=${CMAKE_SOURCE_DIR}"
    "PST_SANITIZE=${PST_SANITIZE}")
  if(PST_SANITIZE STREQUAL "thread")
    # UCX hooks madvise at load time; glibc calls that in new threads before the sanitizer knows them, which crashes.
    list(APPEND environment UCX_MEM_EVENTS=no)
  endif()
  set(run ${ARGN})
  if(PST_SANITIZE STREQUAL "thread" AND SETARCH AND NOT setarch_fails)
    set(run ${SETARCH} -R ${ARGN}) # the thread sanitizer of gcc 12 needs a fixed address space
  endif()
  add_test(NAME ${folder}.${short} COMMAND ${run})
  set_tests_properties(${folder}.${short} PROPERTIES LABELS "${label}" TIMEOUT ${limit} SKIP_RETURN_CODE 77
    ENVIRONMENT "${environment}")
  if(limit GREATER 60) # the long ones first, so that none runs alone at the end
    set_tests_properties(${folder}.${short} PROPERTIES COST ${limit})
  endif()
  if(head MATCHES " serial")
    set_tests_properties(${folder}.${short} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

if(NOT PST_FUZZ) # with clang only the fuzzers are built: some tests ask gcc for instruction sets
  file(GLOB test_sources CONFIGURE_DEPENDS tests/*/test_*.c)
  file(GLOB script_tests CONFIGURE_DEPENDS tests/*/test_*.sh)
endif()
# tests/cuda/ is about the parts of the CUDA module that need no GPU, on a runtime that is made up (fake.c).
if(TARGET penstock_cuda)
  set(fake_parts about.c attention.c attention_about.c attention_graph.c capture.c choices.c convolution.c convolution_call.c convolution_graph.c device.c dnn.c events.c fp8.c linear.c muon.c nccl/comm.c nccl/group.c nccl/message.c nccl/transport.c product.c product_measure.c product_run.c slower.c status.c)
  file(GLOB fake_sources CONFIGURE_DEPENDS tests/cuda/fake*.c)
  list(TRANSFORM fake_parts PREPEND kernels/cuda/)
  add_library(pst_cuda_fake STATIC ${fake_sources} ${fake_parts})
  target_compile_definitions(pst_cuda_fake PUBLIC $<TARGET_PROPERTY:penstock_cuda,COMPILE_DEFINITIONS>)
  target_include_directories(pst_cuda_fake PRIVATE tests)
  target_include_directories(pst_cuda_fake SYSTEM PUBLIC ${CUDNN_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(pst_cuda_fake PUBLIC pst_graph)
else()
  list(FILTER test_sources EXCLUDE REGEX "/tests/cuda/|/test_cuda_dnn[.]c")
endif()
# Our own CUDA kernels as a C++ compiler sees them, with threads that are emulated (tests/kernels/emulate.h).
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND NOT PST_SANITIZE) # which do not know the stacks that its threads have
  enable_language(CXX)
  if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  endif()
  set(own_kernels kernels/cuda/own.c kernels/cuda/image.c kernels/cuda/convolution_call.c kernels/cuda/arith.c kernels/cuda/sums.c kernels/cuda/whole.c)
  foreach(kernel elementwise layer_norm llama column_sum embedding cross_entropy flat codec whole attention_plain fp8 batch_norm image convolution_plain)
    set(source ${CMAKE_BINARY_DIR}/cuda_host_${kernel}.cpp)
    file(CONFIGURE OUTPUT ${source} # written only when it changes
      CONTENT "#include \"kernels/emulate.h\"\n#include \"kernels/cuda/${kernel}.cu\"\n")
    list(APPEND own_kernels ${source})
  endforeach()
  add_library(pst_cuda_host STATIC ${own_kernels})
  target_include_directories(pst_cuda_host PRIVATE tests)
  target_compile_features(pst_cuda_host PRIVATE cxx_std_17)
  target_compile_options(pst_cuda_host PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-O2;-ffp-contract=off;-Wall;-Wextra;-Wno-unknown-pragmas>")
  target_link_libraries(pst_cuda_host PUBLIC pst_graph)
else()
  list(FILTER test_sources EXCLUDE REGEX "/test_cuda_(host|attention|fp8)[.]c")
endif()
# quick_tests builds what the quick tests run, for ./dev sanitize, which runs no others: the program, the modules that
# scripts load, and what pst_built_for(TEST TARGET) adds, programs of quick tests.
add_custom_target(quick_tests)
function(pst_built_for test target)
  get_property(labels TEST ${test} PROPERTY LABELS)
  if("quick" IN_LIST labels)
    add_dependencies(quick_tests ${target})
  endif()
endfunction()
foreach(source ${test_sources})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  string(REPLACE "test_" "" short ${name})
  set(target test_${folder}_${short})
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE tests)
  target_link_libraries(${target} PRIVATE ${PST_LIBS} PkgConfig::CMOCKA)
  if(folder STREQUAL "cuda")
    target_link_libraries(${target} PRIVATE pst_cuda_fake)
  endif()
  if(name STREQUAL "test_cuda_dnn") # on the library itself
    target_sources(${target} PRIVATE kernels/cuda/attention_graph.c kernels/cuda/convolution_graph.c kernels/cuda/dnn.c)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDNN_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
    add_library(pst_loading_driver SHARED tests/kernels/driver.c)
    set_target_properties(pst_loading_driver PROPERTIES NO_SONAME ON)
    target_link_options(pst_loading_driver PRIVATE LINKER:-soname,libcuda.so.1)
    target_link_libraries(pst_loading_driver PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(${target} pst_loading_driver)
    target_compile_definitions(${target} PRIVATE PST_LOADING_DRIVER="$<TARGET_FILE:pst_loading_driver>")
    target_link_libraries(${target} PRIVATE ${CUDNN_LIB} ${CMAKE_DL_LIBS})
  endif()
  if(name MATCHES "^test_cuda_(host|attention|fp8)$")
    target_link_libraries(${target} PRIVATE pst_cuda_host)
  endif()
  target_compile_definitions(${target} PRIVATE PST_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    PST_BINARY="${CMAKE_BINARY_DIR}/penstock")
  if(TARGET penstock_cli)
    add_dependencies(${target} penstock_cli) # some start the program
  endif()
  file(STRINGS ${source} lines REGEX "^(/| )[*] test: wrap=")
  foreach(line ${lines})
    string(REGEX REPLACE ".* wrap=([a-z0-9_,]+).*" "\\1" wraps ${line})
    string(REPLACE "," ";" wraps ${wraps})
    list(TRANSFORM wraps PREPEND "LINKER:--wrap=")
    target_link_options(${target} PRIVATE ${wraps})
  endforeach()
  pst_test(${source} 30 $<TARGET_FILE:${target}>)
  pst_built_for(${folder}.${short} ${target})
endforeach()

foreach(source ${script_tests})
  pst_test(${source} 60 sh ${source})
endforeach()

# tests/fuzz/fuzz_NAME.c has LLVMFuzzerTestOneInput. With PST_FUZZ it is a libFuzzer program fuzz_NAME; without, the
# test fuzz.NAME replays tests/fuzz/corpus/NAME/ and fixed mutations of it through the driver replay.c.
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(target ${source} NAME_WE)
  string(REPLACE "fuzz_" "" short ${target})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${short})
  if(PST_FUZZ)
    add_executable(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    pst_test(${source} 60 $<TARGET_FILE:${target}> -runs=0 ${corpus})
  else()
    add_executable(${target} ${source} tests/fuzz/replay.c)
    pst_test(${source} 60 $<TARGET_FILE:${target}> ${corpus})
  endif()
  pst_built_for(fuzz.${short} ${target})
  target_include_directories(${target} PRIVATE tests)
  target_link_libraries(${target} PRIVATE ${PST_LIBS})
  target_compile_definitions(${target} PRIVATE PST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endforeach()

# A back end as tests of runs load it: the CPU's kernels on a device that the host cannot reach.
if(NOT PST_FUZZ)
  add_library(pst_far MODULE tests/far/far_module.c tests/far/far_arith.c tests/far/far_queue.c
    tests/far/far_choices.c tests/far/far_direct.c
    tests/far/far_f8.c tests/far/far_gaps.c kernels/module_host.c)
  target_include_directories(pst_far PRIVATE tests)
  set_target_properties(pst_far PROPERTIES OUTPUT_NAME pst-far)
  target_link_libraries(pst_far PRIVATE pst_kernels_cpu pst_graph pst_base)
  target_link_options(pst_far PRIVATE -Wl,--exclude-libs,ALL)
  add_library(pst_faulty MODULE tests/verify/faulty_module.c kernels/module_host.c) # the CPU with a bug
  set_target_properties(pst_faulty PROPERTIES OUTPUT_NAME pst-faulty)
  target_link_libraries(pst_faulty PRIVATE pst_kernels_cpu pst_graph pst_base)
  target_link_options(pst_faulty PRIVATE -Wl,--exclude-libs,ALL)
  add_library(pst_reaches MODULE tests/far/ucx_reaches.c) # LD_PRELOAD of far/test_reached.sh
  set_target_properties(pst_reaches PROPERTIES OUTPUT_NAME pst-reaches)
  target_link_libraries(pst_reaches PRIVATE PkgConfig::UCX)
  add_library(pst_early MODULE tests/comm/early_signals.c) # LD_PRELOAD of test_early.sh
  set_target_properties(pst_early PROPERTIES OUTPUT_NAME pst-early)
  target_link_libraries(pst_early PRIVATE ${CMAKE_DL_LIBS})
  add_library(pst_slow_reads MODULE tests/run/slow_reads.c) # LD_PRELOAD of run/test_slow_disk.sh
  set_target_properties(pst_slow_reads PROPERTIES OUTPUT_NAME pst-slow-reads)
  target_link_libraries(pst_slow_reads PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(quick_tests penstock_cli pst_far pst_early)
  foreach(target test_far_training test_far_f8 test_far_gaps test_far_sums test_far_graphs test_far_layouts test_far_staged)
    add_dependencies(${target} pst_far)
    target_compile_definitions(${target} PRIVATE FAR_MODULE="$<TARGET_FILE:pst_far>")
  endforeach()
endif()
