# Options and the compile settings of our own code: target tempera_build_flags, which every room links privately.

option(TEMPERA_DEVELOPER_MODE "tests, benches, examples, and warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(TEMPERA_WERROR "warnings are errors" ${TEMPERA_DEVELOPER_MODE})
set(TEMPERA_SANITIZE "" CACHE STRING "value of -fsanitize for our code, such as 'address,undefined'")
option(TEMPERA_COVERAGE "count executed lines (gcov)" OFF)
option(TEMPERA_FUZZ "build the libFuzzer targets; needs clang" OFF)
option(TEMPERA_CCACHE "compile through ccache when it is found" ON)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O2: what is hot runs in the engines, and -O3 costs build time.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
endif()

add_library(tempera_build_flags INTERFACE)
target_compile_features(tempera_build_flags INTERFACE cxx_std_20)
target_include_directories(tempera_build_flags INTERFACE "${PROJECT_SOURCE_DIR}")
# -fPIC everywhere, programs too: a precompiled header serves only files compiled with the same code model.
target_compile_options(tempera_build_flags INTERFACE -fPIC
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wformat=2 -Wvla)
# Shadowed locals only, and not in tests: GoogleTest's macros shadow parameters.
set(shadow $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow>)
target_compile_options(tempera_build_flags INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TEMPERA_IS_TEST>>>:${shadow}>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 and 13 (bugs 105329, 105562, 104336, 107532).
  target_compile_options(tempera_build_flags INTERFACE -Wno-restrict -Wno-dangling-reference
    -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=array-bounds
    -Wno-error=free-nonheap-object -Wno-error=null-dereference)
endif()
if(TEMPERA_WERROR)
  target_compile_options(tempera_build_flags INTERFACE -Werror)
endif()
if(TEMPERA_SANITIZE)
  target_compile_options(tempera_build_flags INTERFACE "-fsanitize=${TEMPERA_SANITIZE}" -fno-omit-frame-pointer)
  target_link_options(tempera_build_flags INTERFACE "-fsanitize=${TEMPERA_SANITIZE}")
  target_compile_definitions(tempera_build_flags INTERFACE _GLIBCXX_ASSERTIONS)
  if(TEMPERA_SANITIZE MATCHES "undefined")
    target_compile_options(tempera_build_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(TEMPERA_FUZZ) # counters for libFuzzer in every room; only the fuzz targets link its main()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TEMPERA_FUZZ needs clang, got ${CMAKE_CXX_COMPILER_ID}\n  try: apt-get install clang; cmake --preset fuzz")
  endif()
  target_compile_options(tempera_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TEMPERA_COVERAGE)
  target_compile_options(tempera_build_flags INTERFACE --coverage)
  target_link_options(tempera_build_flags INTERFACE --coverage)
endif()

# The fastest linker found. gold comes with binutils and is left out under sanitizers, whose runtimes it orders wrongly.
if(NOT DEFINED TEMPERA_LINKER)
  set(linkers mold lld)
  if(NOT TEMPERA_SANITIZE)
    list(APPEND linkers gold)
  endif()
  set(found default)
  foreach(linker IN LISTS linkers)
    find_program(TEMPERA_LINKER_${linker} NAMES ${linker} ld.${linker})
    mark_as_advanced(TEMPERA_LINKER_${linker})
    if(TEMPERA_LINKER_${linker})
      set(found ${linker})
      break()
    endif()
  endforeach()
  set(TEMPERA_LINKER ${found} CACHE STRING "linker for -fuse-ld, or 'default'")
endif()
if(NOT TEMPERA_LINKER STREQUAL "default")
  target_link_options(tempera_build_flags INTERFACE "-fuse-ld=${TEMPERA_LINKER}")
endif()

# ccache: paths below the source root are made relative, so that several clones share results; the sloppiness is what
# precompiled headers need.
if(TEMPERA_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TEMPERA_CCACHE_PROGRAM ccache)
  mark_as_advanced(TEMPERA_CCACHE_PROGRAM)
  if(TEMPERA_CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_MAXSIZE=5G
      "${TEMPERA_CCACHE_PROGRAM}")
  endif()
endif()
