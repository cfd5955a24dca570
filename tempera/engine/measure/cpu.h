#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tempera::engine {

/// One level of the cache hierarchy as one core sees it.
struct CpuCache {
  int level = 0;
  std::string kind;  ///< "data", "instruction", "unified"
  std::int64_t bytes = 0;
};

/// What this machine's processor is and can do, for doctor and reports.
struct CpuInfo {
  std::string model;                   ///< "Intel(R) Xeon(R) Processor"; empty when the system does not say
  std::vector<std::string> features;   ///< those that decide which kernels run, by common names, weakest first: "avx2", "amx_bf16"
  int cores = 0;                       ///< that this process may use
  int machine_cores = 0;               ///< that the system lists
  std::vector<CpuCache> caches;        ///< of the first core, level 1 first
  std::int64_t memory_bytes = 0;       ///< of the machine
  std::int64_t memory_limit_bytes = 0; ///< of this process's control group; 0: none
};

/// Reads it from the system (Linux: /proc, /sys, sched_getaffinity). What cannot be read stays empty.
[[nodiscard]] CpuInfo cpu_info();

/// Model name and features from the text of /proc/cpuinfo; `machine_cores` from the number of its processors.
[[nodiscard]] CpuInfo parse_cpuinfo(std::string_view text);

/// "48K", "2048K", "32M" as sysfs writes sizes; 0 when it is none.
[[nodiscard]] std::int64_t parse_cache_size(std::string_view text);

/// One line: "Intel(R) Xeon(R) Processor, 2 cores, avx2 avx512f avx512_vnni avx512_bf16 amx_bf16".
[[nodiscard]] std::string to_string(const CpuInfo& info);

}  // namespace tempera::engine
