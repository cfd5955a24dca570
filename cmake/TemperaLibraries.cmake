# Libraries from the system, as targets: fmt::fmt, spdlog::spdlog, nlohmann_json::nlohmann_json,
# tomlplusplus::tomlplusplus, CLI11::CLI11, tempera_sdk::vips, ZLIB::ZLIB, OpenSSL::Crypto, Threads::Threads,
# GTest::gmock_main, benchmark::benchmark.

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)

if(NOT TARGET tomlplusplus::tomlplusplus)
  find_package(tomlplusplus CONFIG QUIET)
  if(NOT TARGET tomlplusplus::tomlplusplus)
    find_path(TEMPERA_TOMLPLUSPLUS_DIR toml++/toml.h REQUIRED)
    mark_as_advanced(TEMPERA_TOMLPLUSPLUS_DIR)
    add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED GLOBAL)
    target_include_directories(tomlplusplus::tomlplusplus INTERFACE "${TEMPERA_TOMLPLUSPLUS_DIR}")
  endif()
endif()

# libvips' C interface and what it needs (GLib).
pkg_check_modules(TEMPERA_VIPS REQUIRED IMPORTED_TARGET GLOBAL vips)
add_library(tempera_sdk_vips INTERFACE IMPORTED GLOBAL)
target_link_libraries(tempera_sdk_vips INTERFACE PkgConfig::TEMPERA_VIPS)
add_library(tempera_sdk::vips ALIAS tempera_sdk_vips)

if(TEMPERA_DEVELOPER_MODE)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  # The Python of the tests, apart from the SDKs; made by tools/setup.sh.
  file(SHA256 "${PROJECT_SOURCE_DIR}/tests/requirements.txt" venv_hash)
  string(SUBSTRING "${venv_hash}" 0 12 venv_hash)
  if(DEFINED ENV{TEMPERA_VENV_DIR})
    set(TEMPERA_VENV_OVERRIDE "$ENV{TEMPERA_VENV_DIR}" CACHE PATH "folder of the tests' Python, from TEMPERA_VENV_DIR" FORCE)
  endif()
  if(TEMPERA_VENV_OVERRIDE)
    set(TEMPERA_TEST_PYTHON "${TEMPERA_VENV_OVERRIDE}/bin/python")
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(TEMPERA_TEST_PYTHON "$ENV{XDG_CACHE_HOME}/tempera/test-python/${venv_hash}/bin/python")
  else()
    set(TEMPERA_TEST_PYTHON "$ENV{HOME}/.cache/tempera/test-python/${venv_hash}/bin/python")
  endif()
endif()
