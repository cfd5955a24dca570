# Target onnx::onnx (also tempera_sdk::onnx): the ONNX project's C++ library, from the pinned wheel's source.
# Compiled once for each version and compiler into the SDK folder; later configures only import it.

function(tempera_import_onnx)
  set(wheel_dir "${TEMPERA_SDK_DIR}/py")
  file(READ "${PROJECT_SOURCE_DIR}/cmake/sdk-requirements.txt" pins)
  if(NOT pins MATCHES "onnx==([0-9.]+)")
    message(FATAL_ERROR "cmake/sdk-requirements.txt pins no onnx")
  endif()
  set(version "${CMAKE_MATCH_1}")

  find_package(Protobuf 3.21 REQUIRED)
  file(SHA256 "${PROJECT_SOURCE_DIR}/cmake/onnx_sdk/CMakeLists.txt" recipe)
  string(SHA256 key "${recipe} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${Protobuf_VERSION}")
  string(SUBSTRING "${key}" 0 12 key)
  set(prefix "${TEMPERA_SDK_DIR}/onnx-${version}-${key}")

  if(NOT EXISTS "${prefix}/.complete")
    file(LOCK "${TEMPERA_SDK_DIR}/.onnx.lock" GUARD FUNCTION TIMEOUT 1800)
  endif()
  if(NOT EXISTS "${prefix}/.complete")
    message(NOTICE "Compiling the ONNX library, once: about a minute and a half on two cores")
    set(work "${prefix}.partial")
    file(REMOVE_RECURSE "${work}" "${prefix}")
    tempera_run_step("${CMAKE_COMMAND}" -S "${PROJECT_SOURCE_DIR}/cmake/onnx_sdk" -B "${work}/build" -G "${CMAKE_GENERATOR}"
      "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
      -DCMAKE_BUILD_TYPE=None "-DONNX_WHEEL_DIR=${wheel_dir}" "-DONNX_VERSION=${version}"
      "-DCMAKE_INSTALL_PREFIX=${work}/install")
    tempera_run_step("${CMAKE_COMMAND}" --build "${work}/build" --parallel)
    tempera_run_step("${CMAKE_COMMAND}" --install "${work}/build")
    file(TOUCH "${work}/install/.complete")
    file(RENAME "${work}/install" "${prefix}")
    file(REMOVE_RECURSE "${work}")
  endif()

  # Linked whole: the schemas of the operators register themselves from objects that nothing else names.
  add_library(tempera_sdk_onnx_archive STATIC IMPORTED GLOBAL)
  set_target_properties(tempera_sdk_onnx_archive PROPERTIES
    IMPORTED_LOCATION "${prefix}/lib/libtempera_onnx.a"
    INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
  add_library(tempera_sdk_onnx INTERFACE IMPORTED GLOBAL)
  target_link_libraries(tempera_sdk_onnx INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,tempera_sdk_onnx_archive>")
  target_compile_definitions(tempera_sdk_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
  target_include_directories(tempera_sdk_onnx SYSTEM INTERFACE "${prefix}/include" "${wheel_dir}")
  add_library(onnx::onnx ALIAS tempera_sdk_onnx)
  add_library(tempera_sdk::onnx ALIAS tempera_sdk_onnx)
endfunction()

function(tempera_run_step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "the ONNX library could not be compiled: step failed with ${status}\n  ${command}\n${output}")
  endif()
endfunction()
