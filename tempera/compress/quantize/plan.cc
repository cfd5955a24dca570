#include "tempera/compress/quantize/plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "tempera/compress/quantize/quantize.h"

namespace tempera::compress {
namespace {

template <typename T>
using Name = std::pair<std::string_view, T>;

// The first name of a format is the one that is printed.
constexpr std::array<Name<WeightFormat>, 16> kFormats = {{{"float", WeightFormat::kFloat},
                                                          {"f16", WeightFormat::kFloat16},
                                                          {"fp16", WeightFormat::kFloat16},
                                                          {"bf16", WeightFormat::kBfloat16},
                                                          {"fp8_e4m3fn", WeightFormat::kFloat8E4M3FN},
                                                          {"fp8-e4m3fn", WeightFormat::kFloat8E4M3FN},
                                                          {"fp8", WeightFormat::kFloat8E4M3FN},
                                                          {"fp8_e5m2", WeightFormat::kFloat8E5M2},
                                                          {"fp8-e5m2", WeightFormat::kFloat8E5M2},
                                                          {"int8", WeightFormat::kInt8},
                                                          {"int4", WeightFormat::kInt4},
                                                          {"int2", WeightFormat::kInt2},
                                                          {"ternary", WeightFormat::kTernary},
                                                          {"binary", WeightFormat::kBinary},
                                                          {"1bit", WeightFormat::kBinary},
                                                          {"f32", WeightFormat::kFloat}}};

constexpr std::array<Name<Target>, 4> kTargets = {{{"openvino", Target::kOpenvino},
                                                   {"onnxruntime", Target::kOnnxruntime},
                                                   {"tensorrt", Target::kTensorrt},
                                                   {"portable", Target::kPortable}}};

template <typename T, std::size_t N>
std::string_view name_of(const std::array<Name<T>, N>& names, T value) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name<T>& name) { return name.second == value; });
  return found->first;
}

template <typename T, std::size_t N>
std::optional<T> value_of(const std::array<Name<T>, N>& names, std::string_view wanted) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name<T>& name) { return name.first == wanted; });
  return found == names.end() ? std::nullopt : std::optional<T>(found->second);
}

}  // namespace

std::string_view to_string(WeightFormat format) { return name_of(kFormats, format); }
std::optional<WeightFormat> weight_format_from_string(std::string_view name) { return value_of(kFormats, name); }

std::string_view to_string(Target target) { return name_of(kTargets, target); }
std::optional<Target> target_from_string(std::string_view name) { return value_of(kTargets, name); }

std::string LayerFormat::to_string() const {
  std::string text(compress::to_string(weights));
  const bool scaled = weights != WeightFormat::kFloat && weights != WeightFormat::kFloat16 &&
                      weights != WeightFormat::kBfloat16;
  if (scaled && granularity.kind == Granularity::Kind::kBlock) {
    text += fmt::format("/{}", granularity.block);
  } else if (scaled && granularity.kind == Granularity::Kind::kTensor) {
    text += "/tensor";
  }
  switch (activations) {
    case ActivationFormat::kFloat: return text;
    case ActivationFormat::kInt8: return text + " x int8";
    case ActivationFormat::kFloat8: return text + " x fp8_e4m3fn";
  }
  return text;
}

}  // namespace tempera::compress
