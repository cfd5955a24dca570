# The C++ SDKs that tools/setup.sh unpacks, as targets tempera_sdk::torch, tempera_sdk::openvino and tempera_sdk::onnx.
# The targets are made by hand: torch's own CMake package wants a CUDA toolkit.

include("${CMAKE_CURRENT_LIST_DIR}/TemperaOnnx.cmake")

set(pins_file "${PROJECT_SOURCE_DIR}/cmake/sdk-requirements.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pins_file}")
file(SHA256 "${pins_file}" pins_hash)
string(SUBSTRING "${pins_hash}" 0 12 pins_hash)
if(DEFINED ENV{TEMPERA_SDK_DIR}) # remembered, since a later build configures again in another environment
  set(TEMPERA_SDK_OVERRIDE "$ENV{TEMPERA_SDK_DIR}" CACHE PATH "folder of the C++ SDKs, from the variable TEMPERA_SDK_DIR" FORCE)
endif()
if(TEMPERA_SDK_OVERRIDE)
  set(TEMPERA_SDK_DIR "${TEMPERA_SDK_OVERRIDE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(TEMPERA_SDK_DIR "$ENV{XDG_CACHE_HOME}/tempera/sdk/${pins_hash}")
else()
  set(TEMPERA_SDK_DIR "$ENV{HOME}/.cache/tempera/sdk/${pins_hash}")
endif()
set(complete "")
if(EXISTS "${TEMPERA_SDK_DIR}/.complete")
  file(STRINGS "${TEMPERA_SDK_DIR}/.complete" complete LIMIT_COUNT 1)
endif()
if(NOT complete STREQUAL pins_hash)
  message(FATAL_ERROR "the pinned C++ SDKs are not in '${TEMPERA_SDK_DIR}'\n  try: tools/setup.sh")
endif()
set(sdk "${TEMPERA_SDK_DIR}/py")

# The one file that matches a pattern; versions are in the names of some libraries, and the pins fix them.
function(tempera_sdk_file output pattern)
  file(GLOB found "${sdk}/${pattern}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "expected one file '${sdk}/${pattern}', found ${count}\n  try: remove '${TEMPERA_SDK_DIR}' and run tools/setup.sh")
  endif()
  set(${output} "${found}" PARENT_SCOPE)
endfunction()

# --- torch: its CPU half, linked directly; libtorch.so would drag in CUDA. cudart and cupti come with libtorch_cpu.
tempera_sdk_file(torch_cpu "torch/lib/libtorch_cpu.so")
tempera_sdk_file(torch_c10 "torch/lib/libc10.so")
tempera_sdk_file(torch_gomp "torch/lib/libgomp.so.1")
tempera_sdk_file(torch_cudart "nvidia/*/lib/libcudart.so.*")
tempera_sdk_file(torch_cupti "nvidia/*/lib/libcupti.so.*")

foreach(library c10 gomp cudart cupti)
  add_library(tempera_sdk_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(tempera_sdk_${library} PROPERTIES IMPORTED_LOCATION "${torch_${library}}")
endforeach()
add_library(tempera_sdk::torch SHARED IMPORTED GLOBAL)
set_target_properties(tempera_sdk::torch PROPERTIES
  IMPORTED_LOCATION "${torch_cpu}"
  IMPORTED_LINK_DEPENDENT_LIBRARIES "tempera_sdk_gomp;tempera_sdk_cudart;tempera_sdk_cupti"
  INTERFACE_LINK_LIBRARIES tempera_sdk_c10)
# -idirafter: torch's include folder also holds other versions of fmt and Protobuf, which must not win over the system's.
target_compile_options(tempera_sdk::torch INTERFACE
  "SHELL:-idirafter ${sdk}/torch/include/torch/csrc/api/include" "SHELL:-idirafter ${sdk}/torch/include")
target_compile_definitions(tempera_sdk::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)

# --- OpenVINO
tempera_sdk_file(openvino_runtime "openvino/libs/libopenvino.so.*")
tempera_sdk_file(openvino_tbb "openvino/libs/libtbb.so.*")
add_library(tempera_sdk_tbb SHARED IMPORTED GLOBAL)
set_target_properties(tempera_sdk_tbb PROPERTIES IMPORTED_LOCATION "${openvino_tbb}")
add_library(tempera_sdk::openvino SHARED IMPORTED GLOBAL)
set_target_properties(tempera_sdk::openvino PROPERTIES
  IMPORTED_LOCATION "${openvino_runtime}"
  IMPORTED_LINK_DEPENDENT_LIBRARIES tempera_sdk_tbb
  INTERFACE_COMPILE_DEFINITIONS "OV_THREAD=OV_THREAD_TBB_ADAPTIVE;_GLIBCXX_USE_CXX11_ABI=1")
target_include_directories(tempera_sdk::openvino SYSTEM INTERFACE "${sdk}/openvino/include")

# --- ONNX
tempera_import_onnx()
