#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/versions.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/measure/cpu.h"
#include "tempera/report/report.h"

namespace tempera::cli {
namespace {

nlohmann::ordered_json engine_json(const engine::EngineEntry& entry) {
  nlohmann::ordered_json json = {{"name", entry.name}};
  try {
    const engine::Attributes attributes = entry.make()->attributes();
    json["version"] = attributes.version;
    json["devices"] = attributes.devices;
    std::vector<std::string> precisions;
    for (const engine::Precision precision : attributes.precisions) {
      precisions.emplace_back(engine::to_string(precision));
    }
    json["precisions"] = precisions;
  } catch (const Error& error) {
    json["error"] = error.what();
  }
  return json;
}

void run_doctor(bool as_json) {
  const engine::CpuInfo cpu = engine::cpu_info();
  nlohmann::ordered_json json = {{"versions", versions()},
                                 {"cpu",
                                  {{"model", cpu.model},
                                   {"features", cpu.features},
                                   {"cores", cpu.cores},
                                   {"machine_cores", cpu.machine_cores},
                                   {"memory_bytes", cpu.memory_bytes}}}};
  json["engines"] = nlohmann::ordered_json::array();
  for (const engine::EngineEntry& entry : engine::engines()) {
    json["engines"].push_back(engine_json(entry));
  }
  if (as_json) {
    std::puts(json.dump(2).c_str());
    return;
  }
  std::puts(version_text().c_str());
  fmt::print("\ncpu       {}, {} of {} cores, {} of memory\n          {}\n", cpu.model, cpu.cores,
             cpu.machine_cores, report::human_bytes(cpu.memory_bytes), fmt::join(cpu.features, " "));
  for (const auto& engine : json["engines"]) {
    if (engine.contains("error")) {
      fmt::print("engine    {}: not usable here: {}\n", engine["name"].get<std::string>(),
                 engine["error"].get<std::string>());
      continue;
    }
    fmt::print("engine    {} {}: devices {}; computes natively in {}\n", engine["name"].get<std::string>(),
               engine["version"].get<std::string>(),
               fmt::join(engine["devices"].get<std::vector<std::string>>(), ", "),
               fmt::join(engine["precisions"].get<std::vector<std::string>>(), ", "));
  }
}

}  // namespace

void add_doctor(CLI::App& app) {
  const auto shared = add_shared_options(app, 0);
  app.callback([shared] { run_doctor(shared->json); });
}

}  // namespace tempera::cli
