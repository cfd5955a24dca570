#include "tempera/engine/measure/cpu.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tempera::engine {
namespace {

// The names are those of Linux on x86 and Arm; the order is from weak to strong.
constexpr std::array kFeatures = {
    std::string_view("sse4_2"),      std::string_view("avx"),         std::string_view("f16c"),
    std::string_view("fma"),         std::string_view("avx2"),        std::string_view("avx_vnni"),
    std::string_view("avx512f"),     std::string_view("avx512bw"),    std::string_view("avx512vl"),
    std::string_view("avx512_vnni"), std::string_view("avx512_bf16"), std::string_view("avx512_fp16"),
    std::string_view("amx_tile"),    std::string_view("amx_int8"),    std::string_view("amx_bf16"),
    std::string_view("amx_fp16"),    std::string_view("asimd"),       std::string_view("asimdhp"),
    std::string_view("asimddp"),     std::string_view("bf16"),        std::string_view("i8mm"),
    std::string_view("sve"),         std::string_view("sve2"),
};

// Files of /proc and /sys give no size beforehand.
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc{} ? value : 0;
}

std::vector<CpuCache> read_caches() {
  std::vector<CpuCache> caches;
  const std::filesystem::path folder = "/sys/devices/system/cpu/cpu0/cache";
  for (int i = 0; std::filesystem::exists(folder / fmt::format("index{}", i)); ++i) {
    const std::filesystem::path index = folder / fmt::format("index{}", i);
    CpuCache cache;
    cache.level = static_cast<int>(number(trimmed(text_of(index / "level"))));
    cache.kind = trimmed(text_of(index / "type"));
    std::transform(cache.kind.begin(), cache.kind.end(), cache.kind.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    cache.bytes = parse_cache_size(trimmed(text_of(index / "size")));
    caches.push_back(std::move(cache));
  }
  return caches;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return CPU_COUNT(&set);
  }
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// cgroup v2, then v1; "max" and v1's huge default mean no limit.
std::int64_t memory_limit(std::int64_t machine_bytes) {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::int64_t bytes = number(trimmed(text_of(path)));
    if (bytes > 0 && bytes < machine_bytes) {
      return bytes;
    }
  }
  return 0;
}

}  // namespace

std::int64_t parse_cache_size(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || value < 0) {
    return 0;
  }
  const std::string_view unit(result.ptr, static_cast<std::size_t>(end - result.ptr));
  if (unit.empty()) {
    return value;
  }
  return unit == "K" ? value << 10 : unit == "M" ? value << 20 : unit == "G" ? value << 30 : 0;
}

CpuInfo parse_cpuinfo(std::string_view text) {
  CpuInfo info;
  std::set<std::string, std::less<>> flags;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) {
      continue;
    }
    const std::string_view key = trimmed(std::string_view(line).substr(0, colon));
    const std::string_view value = trimmed(std::string_view(line).substr(colon + 1));
    if (key == "processor") {
      ++info.machine_cores;
    } else if ((key == "model name" || key == "Model") && info.model.empty()) {
      info.model = value;
    } else if ((key == "flags" || key == "Features") && flags.empty()) {
      std::istringstream words{std::string(value)};
      for (std::string word; words >> word;) {
        flags.insert(word);
      }
    }
  }
  for (const std::string_view feature : kFeatures) {
    if (flags.contains(feature)) {
      info.features.emplace_back(feature);
    }
  }
  return info;
}

CpuInfo cpu_info() {
  CpuInfo info = parse_cpuinfo(text_of("/proc/cpuinfo"));
  info.cores = usable_cores();
  info.machine_cores = std::max(info.machine_cores, info.cores);
  info.caches = read_caches();
  struct sysinfo machine {};
  if (sysinfo(&machine) == 0) {
    info.memory_bytes = static_cast<std::int64_t>(machine.totalram) * static_cast<std::int64_t>(machine.mem_unit);
  }
  info.memory_limit_bytes = memory_limit(info.memory_bytes);
  return info;
}

std::string to_string(const CpuInfo& info) {
  return fmt::format("{}, {} core{}{}{}", info.model.empty() ? "unknown processor" : info.model, info.cores,
                     info.cores == 1 ? "" : "s", info.features.empty() ? "" : ", ", fmt::join(info.features, " "));
}

}  // namespace tempera::engine
