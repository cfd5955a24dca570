#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/gptq.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// For which engine a file is made: decides where Q/DQ stand, types and axes.
enum class Target : std::uint8_t { kOpenvino, kOnnxruntime, kTensorrt, kPortable };

[[nodiscard]] std::string_view to_string(Target target);
[[nodiscard]] std::optional<Target> target_from_string(std::string_view name);

/// Second moments of layers' inputs by the layer's name (hessians.h).
using Hessians = std::map<std::string, Hessian, std::less<>>;

struct QuantizeOptions {
  Target target = Target::kOpenvino;
  /// Activations that take both signs have a zero point (uint8). Without (int8, symmetric) up to half the codes are lost, and
  /// kernels that need no correction for it may be faster.
  bool zero_points = true;
  /// The parts of a Concat that planned layers write are quantised too, on one scale, even where its readers are not: the
  /// Concat then joins codes, a quarter of the bytes, at the cost of one more rounding.
  bool join_codes = false;
  bool seven_bit_weights = false;  ///< uint8 x int8 saturates on CPUs without VNNI: weights in -63..63
  bool older_readers = false;      ///< int4 and fp8 weights as packed bytes, which need opset 13 in place of 21 or 19
  const Hessians* hessians = nullptr;  ///< layers named here choose codes by GPTQ; null: none do
};

/// What was done with one layer.
struct LayerRecord {
  std::string layer;
  std::string op_type;
  LayerFormat format;             ///< what it really got
  std::string why;                ///< when that differs from the plan: the reason
  double weight_relative_l2 = 0.0;  ///< of the decoded weights against the float ones
  std::int64_t bytes_before = 0;  ///< of the weights
  std::int64_t bytes_after = 0;   ///< scales and zero points included
};

struct Quantized {
  graph::Model model;
  std::vector<LayerRecord> layers;
};

/// The model with the plan applied: standard ONNX with QuantizeLinear and DequantizeLinear, or packed weights unpacked by
/// standard operators where ONNX has no type. The opset is raised where a type needs it.
///
/// \param calibration  ranges of every tensor that `activation_tensors` names; null when the plan has no activations
/// \throws Error{kInvalidArgument} naming a layer of the plan that the model does not have
[[nodiscard]] Quantized quantize(const graph::Model& model, const QuantizationPlan& plan, const Calibration* calibration,
                                 const QuantizeOptions& options);

/// Names of the tensors whose ranges the plan needs.
[[nodiscard]] std::vector<std::string> activation_tensors(const graph::Model& model, const QuantizationPlan& plan,
                                                          const QuantizeOptions& options);

/// The same for the plan as a whole and for each of its layers alone: codes stand elsewhere when the others stay float.
[[nodiscard]] std::vector<std::string> activation_tensors_whole_and_alone(const graph::Model& model, const QuantizationPlan& plan,
                                                                          const QuantizeOptions& options);

/// How many inputs of nodes would read codes: what an option changes of the places of codes shows here, where the tensors
/// with ranges may stay the same.
[[nodiscard]] std::size_t quantized_inputs(const graph::Model& model, const QuantizationPlan& plan,
                                           const QuantizeOptions& options);

}  // namespace tempera::compress
