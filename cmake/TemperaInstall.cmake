# What `cmake --install` and CPack write, all below one relocatable prefix:
#
#   bin/tempera                  the program
#   lib/libtempera.so            the library, with tempera/tempera.h as its interface
#   lib/tempera/                 the parts of the SDKs that both link; nothing else looks in there
#   lib/cmake/Tempera/           find_package(Tempera)
#   share/doc/tempera/           licences
#   share/{bash-completion,zsh,fish}/   completion, written by the program itself
#
# A package also holds the system's libraries (tools/bundle_libraries.sh), so that it runs where they are not installed.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib) # not lib/<triplet>: the prefix can be moved
set(private_libdir "${CMAKE_INSTALL_LIBDIR}/tempera")
set(docdir "${CMAKE_INSTALL_DATAROOTDIR}/doc/tempera")

# DT_RPATH, not DT_RUNPATH: it also serves the libraries that our libraries load.
if(TARGET tempera_program)
  set_target_properties(tempera_program PROPERTIES INSTALL_RPATH "\$ORIGIN/../${private_libdir}")
  target_link_options(tempera_program PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS tempera_program RUNTIME DESTINATION bin)
  foreach(completion IN ITEMS bash:bash-completion/completions/tempera zsh:zsh/site-functions/_tempera
                              fish:fish/vendor_completions.d/tempera.fish)
    string(REPLACE ":" ";" completion "${completion}")
    list(GET completion 0 shell)
    list(GET completion 1 file)
    cmake_path(GET file PARENT_PATH folder)
    install(CODE "
      file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/${folder}\")
      execute_process(COMMAND \"${PROJECT_BINARY_DIR}/tempera\" completion ${shell} COMMAND_ERROR_IS_FATAL ANY
        OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/${file}\")")
  endforeach()
endif()
if(TARGET tempera_library)
  set_target_properties(tempera_library PROPERTIES INSTALL_RPATH "\$ORIGIN/tempera")
  target_link_options(tempera_library PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS tempera_library EXPORT TemperaTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  # One header is installed: tempera.h with the header of Error, which the rooms share with it, put in its place.
  file(READ "${PROJECT_SOURCE_DIR}/tempera/base/error.h" error_header)
  string(REPLACE "#pragma once\n" "" error_header "${error_header}")
  file(READ "${PROJECT_SOURCE_DIR}/tempera/tempera.h" public_header)
  string(REPLACE "#include \"tempera/base/error.h\"\n" "${error_header}" public_header "${public_header}")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/public/tempera.h" CONTENT "${public_header}" @ONLY)
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tempera/base/error.h" "${PROJECT_SOURCE_DIR}/tempera/tempera.h")
  install(FILES "${PROJECT_BINARY_DIR}/public/tempera.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tempera")
  install(EXPORT TemperaTargets NAMESPACE Tempera:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Tempera")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TemperaConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/TemperaConfig.cmake" INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Tempera")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/TemperaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/TemperaConfig.cmake" "${PROJECT_BINARY_DIR}/TemperaConfigVersion.cmake"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Tempera")
endif()

# OpenVINO loads its plug-ins and readers from the folder it lies in: the CPU's, ONNX's, and its own format's (cache).
set(sdk_libraries "${torch_cpu}" "${torch_c10}" "${torch_gomp}" "${torch_cudart}" "${torch_cupti}" "${openvino_runtime}")
foreach(pattern libopenvino_intel_cpu_plugin.so libopenvino_onnx_frontend.so.* libopenvino_ir_frontend.so.*
                libtbb.so.* libtbbmalloc.so.* libtbbbind*.so.* libhwloc.so.*)
  tempera_sdk_file(library "openvino/libs/${pattern}")
  list(APPEND sdk_libraries "${library}")
endforeach()
install(PROGRAMS ${sdk_libraries} DESTINATION "${private_libdir}")

# Their symbol tables, 90 MB in torch, are of use to a debugger only.
if(CMAKE_STRIP)
  set(names)
  foreach(library IN LISTS sdk_libraries)
    get_filename_component(name "${library}" NAME)
    list(APPEND names "${name}")
  endforeach()
  install(CODE "
    foreach(name IN ITEMS ${names})
      execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private_libdir}/\${name}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
endif()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY.md"
  DESTINATION "${docdir}")
foreach(wheel torch nvidia_cuda_runtime nvidia_cuda_cupti openvino onnx)
  file(GLOB licences "${sdk}/${wheel}-*.dist-info/licenses/*" "${sdk}/${wheel}-*.dist-info/[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*.txt")
  foreach(licence IN LISTS licences)
    if(IS_DIRECTORY "${licence}")
      install(DIRECTORY "${licence}" DESTINATION "${docdir}/licences/${wheel}")
    else()
      install(FILES "${licence}" DESTINATION "${docdir}/licences/${wheel}")
    endif()
  endforeach()
endforeach()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME tempera)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" platform)
set(CPACK_PACKAGE_FILE_NAME "tempera-${PROJECT_VERSION}-${platform}")
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/TemperaBundle.cmake")
set(CPACK_THREADS 0)
include(CPack)
