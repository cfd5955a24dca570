#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/calibrate.h"

namespace tempera::compress {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tempera.calibration";
constexpr int kVersion = 1;

RangeMethod method_of(const std::string& name) {
  const auto method = range_method_from_string(name);
  if (!method || *method == RangeMethod::kAuto) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no method that chose a range", name));
  }
  return *method;
}

}  // namespace

// Floats are widened to double, which is exact, and printed in the shortest form that reads back as the same
// bits.
std::string to_json(const Calibration& calibration) {
  Json json = {{"schema", kSchema},
               {"version", kVersion},
               {"engine", calibration.engine},
               {"samples", calibration.samples},
               {"ranges", Json::object()}};
  for (const auto& [name, range] : calibration.ranges) {
    json["ranges"][name] = {{"min", range.min},
                            {"max", range.max},
                            {"lo", range.lo},
                            {"hi", range.hi},
                            {"method", to_string(range.method)},
                            {"relative_mse", range.relative_mse}};
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Calibration calibration_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != kSchema || json.at("version") != kVersion) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("not a calibration: expected schema '{}', version {}", kSchema, kVersion));
    }
    Calibration calibration;
    calibration.engine = json.at("engine").get<std::string>();
    calibration.samples = json.at("samples").get<std::int64_t>();
    for (const auto& [name, item] : json.at("ranges").items()) {
      TensorRange& range = calibration.ranges[name];
      range.min = item.at("min").get<float>();
      range.max = item.at("max").get<float>();
      range.lo = item.at("lo").get<float>();
      range.hi = item.at("hi").get<float>();
      range.method = method_of(item.at("method").get<std::string>());
      range.relative_mse = item.at("relative_mse").get<double>();
    }
    return calibration;
  } catch (const Json::exception& e) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("not a calibration: {}", e.what()));
  }
}

}  // namespace tempera::compress
