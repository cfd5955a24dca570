# tempera_module: one room of the house, or a room inside a room.
#
#   tempera_module(quantize              # target tempera_quantize, alias tempera::quantize
#     DEPS graph numeric                 # rooms (and targets with ::) that its headers or sources use
#     PRIVATE_DEPS fmt::fmt              # rooms or targets that only its .cc files use
#     SOURCES affine.cc                  # without tests
#     TESTS affine_test.cc               # one program tempera_quantize_test, ctest label "quantize"
#     SLOW_TESTS sweep_test.cc           # another one, label "slow" (excluded by the preset "fast")
#     TEST_DEPS engine_torch             # what only the tests need
#     TORCH)                             # links torch privately and uses the shared precompiled header of ATen
#
# The name is the folder below tempera/ with "/" as "_" (engine/openvino: engine_openvino), or begins with it.
# A room without SOURCES is header-only.

# Rooms without "::" become tempera::room; a misspelt one fails at generate time because of the "::".
function(tempera_resolve_targets output)
  set(targets)
  foreach(name IN LISTS ARGN)
    if(name MATCHES "::" OR name MATCHES "^\\$<")
      list(APPEND targets "${name}")
    else()
      list(APPEND targets "tempera::${name}")
    endif()
  endforeach()
  set(${output} "${targets}" PARENT_SCOPE)
endfunction()

function(tempera_reject_unknown function unparsed missing)
  if(unparsed)
    message(FATAL_ERROR "${function}: unknown arguments: ${unparsed}")
  endif()
  if(missing)
    message(FATAL_ERROR "${function}: keywords without values: ${missing}")
  endif()
endfunction()

# ATen's headers cost 8 s a file, 3 s when compiled once and reused. Not <torch/torch.h>: the templates that it leaves to
# instantiate cost every file 6 s even when precompiled, so the few files that need more than these include it themselves.
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  if(NOT EXISTS "${PROJECT_BINARY_DIR}/torch_pch.cc")
    file(WRITE "${PROJECT_BINARY_DIR}/torch_pch.cc" "// Owns the precompiled ATen headers.\n")
  endif()
  add_library(tempera_torch_pch STATIC EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/torch_pch.cc")
  target_link_libraries(tempera_torch_pch PRIVATE tempera_build_flags tempera_sdk::torch)
  target_precompile_headers(tempera_torch_pch PRIVATE
    <ATen/ATen.h> <ATen/Parallel.h> <torch/csrc/autograd/autograd.h> <torch/csrc/autograd/custom_function.h>)
  target_compile_options(tempera_torch_pch PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

function(tempera_use_torch target)
  target_link_libraries(${target} PRIVATE tempera_sdk::torch)
  if(TARGET tempera_torch_pch)
    # -fpch-preprocess: ccache needs it to follow a precompiled header.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM tempera_torch_pch)
  endif()
endfunction()

function(tempera_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "DEPS;PRIVATE_DEPS;SOURCES;TESTS;SLOW_TESTS;TEST_DEPS")
  tempera_reject_unknown("tempera_module(${name})" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  file(RELATIVE_PATH room "${PROJECT_SOURCE_DIR}/tempera" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REPLACE "/" "_" room "${room}")
  if(NOT name MATCHES "^${room}")
    message(FATAL_ERROR "tempera_module(${name}): the name must begin with the folder's, '${room}'")
  endif()
  tempera_resolve_targets(deps ${arg_DEPS})
  tempera_resolve_targets(private_deps ${arg_PRIVATE_DEPS})

  set(target tempera_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PUBLIC ${deps} PRIVATE tempera_build_flags ${private_deps})
    if(arg_TORCH)
      tempera_use_torch(${target})
    endif()
    set_property(GLOBAL APPEND PROPERTY TEMPERA_ROOM_TARGETS ${target})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${deps} ${private_deps})
  endif()
  add_library(tempera::${name} ALIAS ${target})

  set(torch)
  if(arg_TORCH)
    set(torch TORCH)
  endif()
  if(arg_TESTS)
    tempera_test(${name}_test DEPS ${name} ${arg_PRIVATE_DEPS} ${arg_TEST_DEPS} SOURCES ${arg_TESTS} LABELS ${name} ${torch})
  endif()
  if(arg_SLOW_TESTS)
    tempera_test(${name}_slow_test DEPS ${name} ${arg_PRIVATE_DEPS} ${arg_TEST_DEPS} SOURCES ${arg_SLOW_TESTS}
      LABELS ${name} slow ${torch})
  endif()
endfunction()

# tempera_test: a GoogleTest program, one ctest entry, run in the source root with $TEMPERA_SOURCE_DIR set.
#
#   tempera_test(conformance_test DEPS onnx engine_torch SOURCES node_cases_test.cc LABELS slow TIMEOUT 900 ARGS --cases all)
#
# The programs lie in build/tests/. $TEMPERA_TEST_PYTHON is the Python of the tests (onnx, numpy, onnxruntime), and
# $TEMPERA_PROGRAM the command line program.
function(tempera_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "TIMEOUT" "DEPS;SOURCES;LABELS;ENVIRONMENT;ARGS")
  tempera_reject_unknown("tempera_test(${name})" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  if(NOT TEMPERA_DEVELOPER_MODE)
    return()
  endif()
  tempera_resolve_targets(deps ${arg_DEPS})
  add_executable(tempera_${name} ${arg_SOURCES})
  set_target_properties(tempera_${name} PROPERTIES OUTPUT_NAME "${name}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" TEMPERA_IS_TEST ON)
  target_link_libraries(tempera_${name} PRIVATE tempera_build_flags ${deps} GTest::gmock_main)
  if(arg_TORCH)
    tempera_use_torch(tempera_${name})
  endif()
  tempera_add_test(${name} COMMAND "$<TARGET_FILE:tempera_${name}>" ${arg_ARGS}
    LABELS ${arg_LABELS} ENVIRONMENT ${arg_ENVIRONMENT} TIMEOUT ${arg_TIMEOUT})
endfunction()

# tempera_add_test: any command as a ctest entry, with the environment that all tests share. A script is run as
# COMMAND "${TEMPERA_TEST_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/x_test.py"; exit code 77 means skipped.
# RUN_SERIAL keeps other tests from running beside it.
function(tempera_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUN_SERIAL" "" "COMMAND;LABELS;ENVIRONMENT;TIMEOUT")
  tempera_reject_unknown("tempera_add_test(${name})" "${arg_UNPARSED_ARGUMENTS}" "")
  if(NOT TEMPERA_DEVELOPER_MODE)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(TEMPERA_SANITIZE) # sanitized code is 2 to 15 times slower
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  set(suppressions "${PROJECT_SOURCE_DIR}/tools/sanitizers")
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    RUN_SERIAL ${arg_RUN_SERIAL}
    ENVIRONMENT "TEMPERA_SOURCE_DIR=${PROJECT_SOURCE_DIR};TEMPERA_BUILD_DIR=${PROJECT_BINARY_DIR};TEMPERA_PROGRAM=${PROJECT_BINARY_DIR}/tempera;TEMPERA_TEST_PYTHON=${TEMPERA_TEST_PYTHON};TEMPERA_SANITIZE=${TEMPERA_SANITIZE};ASAN_OPTIONS=detect_container_overflow=0:allocator_may_return_null=1:strict_string_checks=1;LSAN_OPTIONS=suppressions=${suppressions}/lsan.supp;TBB_ENABLE_SANITIZERS=1;UBSAN_OPTIONS=print_stacktrace=1:suppressions=${suppressions}/ubsan.supp;TSAN_OPTIONS=halt_on_error=1:suppressions=${suppressions}/tsan.supp;${arg_ENVIRONMENT}")
endfunction()

# tempera_fuzz: a libFuzzer target. In the preset "fuzz" (clang) the test of that name fuzzes for $TEMPERA_FUZZ_SECONDS, 60 by
# default; in every other build the same source replays the seeds and the crash inputs kept in CORPUS, so they stay fixed.
#
#   tempera_fuzz(onnx_read_fuzz DEPS onnx SOURCES onnx_read_fuzz.cc CORPUS corpus/onnx_read [DICTIONARY onnx.dict])
#
# The source defines: extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
function(tempera_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;DICTIONARY" "DEPS;SOURCES")
  tempera_reject_unknown("tempera_fuzz(${name})" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  if(NOT TEMPERA_DEVELOPER_MODE)
    return()
  endif()
  tempera_resolve_targets(deps ${arg_DEPS})
  add_executable(tempera_${name} ${arg_SOURCES})
  set_target_properties(tempera_${name} PROPERTIES OUTPUT_NAME "${name}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" TEMPERA_IS_TEST ON)
  target_link_libraries(tempera_${name} PRIVATE tempera_build_flags ${deps})
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS}")
  if(TEMPERA_FUZZ)
    target_link_options(tempera_${name} PRIVATE -fsanitize=fuzzer)
    set(dictionary)
    if(arg_DICTIONARY)
      set(dictionary "-dict=${CMAKE_CURRENT_SOURCE_DIR}/${arg_DICTIONARY}")
    endif()
    tempera_add_test(${name} COMMAND "${PROJECT_SOURCE_DIR}/tools/fuzz.sh" "$<TARGET_FILE:tempera_${name}>" "${corpus}" ${dictionary}
      LABELS fuzz TIMEOUT 7200)
  else()
    target_sources(tempera_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc")
    tempera_add_test(${name} COMMAND "$<TARGET_FILE:tempera_${name}>" "${corpus}" LABELS fuzz)
  endif()
endfunction()

# tempera_program: the command line program, left at the top of the build folder.
function(tempera_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "DEPS;SOURCES")
  tempera_reject_unknown("tempera_program" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  tempera_resolve_targets(deps ${arg_DEPS})
  add_executable(tempera_program ${arg_SOURCES})
  set_target_properties(tempera_program PROPERTIES OUTPUT_NAME tempera RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  target_link_libraries(tempera_program PRIVATE tempera_build_flags ${deps})
endfunction()

# tempera_library: the public library, Tempera::tempera. Its own sources are its interface; what it takes from the rooms
# stays hidden inside. Includes are <tempera/tempera.h> in both the build and the installed tree.
function(tempera_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "DEPS;SOURCES")
  tempera_reject_unknown("tempera_library" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  tempera_resolve_targets(deps ${arg_DEPS})
  add_library(tempera_library SHARED ${arg_SOURCES})
  add_library(Tempera::tempera ALIAS tempera_library)
  set_target_properties(tempera_library PROPERTIES OUTPUT_NAME tempera EXPORT_NAME tempera
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}" VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_compile_features(tempera_library PUBLIC cxx_std_20)
  target_include_directories(tempera_library INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include>")
  # BUILD_LOCAL_INTERFACE would be the word for it from CMake 3.26 on: users of the library link none of these.
  target_link_libraries(tempera_library PRIVATE "$<BUILD_INTERFACE:tempera_build_flags>")
  foreach(dependency IN LISTS deps)
    target_link_libraries(tempera_library PRIVATE "$<BUILD_INTERFACE:${dependency}>")
  endforeach()
  target_link_options(tempera_library PRIVATE -Wl,--exclude-libs,ALL)
endfunction()

# tempera_bench: a program under build/bench/, run by `make bench` and never by the tests.
function(tempera_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "DEPS;SOURCES")
  tempera_reject_unknown("tempera_bench(${name})" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}")
  tempera_resolve_targets(deps ${arg_DEPS})
  add_executable(tempera_${name} ${arg_SOURCES})
  set_target_properties(tempera_${name} PROPERTIES OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(tempera_${name} PRIVATE tempera_build_flags ${deps})
  if(arg_TORCH)
    tempera_use_torch(tempera_${name})
  endif()
endfunction()
