#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/probe.h"
#include "tempera/cli/report_output.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/subject_arguments.h"
#include "tempera/cli/versions.h"
#include "tempera/optimize/quantize_model.h"

namespace tempera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMixed = "mixed";  // int4 weights where the budget allows, wider ones elsewhere

struct QuantizeArguments {
  std::shared_ptr<SharedOptions> shared;
  SubjectArguments subject;
  std::string scheme;
  std::int64_t block = -1;  // -1: the scheme's own
  bool per_tensor = false;
  bool weights_only = false;
  bool older_readers = false;
  bool no_zero_points = false;
  bool join_codes = false;
  bool seven_bit_weights = false;
  bool dry_run = false;
  std::string rounding = "auto";
  std::string calibrate = "auto";
  std::vector<std::string> keep_float;
  bool every_layer = false;
  std::string out;
  bool force = false;
  std::string max_loss;
  std::string min;
  std::int64_t pairs = 30;
  double seconds = 120;
};

compress::LayerFormat format_of(const QuantizeArguments& arguments) {
  using compress::WeightFormat;
  compress::LayerFormat format;
  const std::optional<WeightFormat> weights = arguments.scheme == kMixed
                                                  ? WeightFormat::kInt4
                                                  : compress::weight_format_from_string(arguments.scheme);
  if (!weights.has_value() || *weights == WeightFormat::kFloat) {
    throw Error(ErrorCode::kInvalidArgument,
                unknown_name("scheme", arguments.scheme,
                             {"int8", "int4", kMixed, "int2", "ternary", "binary", "fp8", "fp8-e5m2", "fp16", "bf16"}));
  }
  format.weights = *weights;
  const bool has_integer_products = *weights == WeightFormat::kInt8 || *weights == WeightFormat::kFloat8E4M3FN;
  if (has_integer_products && !arguments.weights_only) {
    format.activations = *weights == WeightFormat::kInt8 ? compress::ActivationFormat::kInt8
                                                         : compress::ActivationFormat::kFloat8;
  }
  const bool narrow = *weights == WeightFormat::kInt4 || *weights == WeightFormat::kInt2 ||
                      *weights == WeightFormat::kTernary || *weights == WeightFormat::kBinary;
  if (arguments.per_tensor) {
    format.granularity.kind = compress::Granularity::Kind::kTensor;
  } else if (const std::int64_t block = arguments.block >= 0 ? arguments.block : narrow ? 64 : 0; block > 0) {
    format.granularity = {compress::Granularity::Kind::kBlock, block};
  }
  return format;
}

optimize::QuantizeModelOptions options_of(const QuantizeArguments& arguments) {
  optimize::QuantizeModelOptions options;
  options.subject = subject_options(arguments.subject, *arguments.shared);
  options.out = arguments.out;
  options.force = arguments.force;
  options.engine = arguments.shared->engine;
  options.device = arguments.shared->device;
  if (!arguments.shared->precision.empty()) {
    options.precision = compile_options(*arguments.shared).precision;
  }
  options.threads = arguments.shared->threads;
  options.format = format_of(arguments);
  options.mixed = arguments.scheme == kMixed;
  options.float_layers = arguments.keep_float;
  options.every_layer = arguments.every_layer;
  options.quantize.target = compress::target_from_string(arguments.shared->target).value();
  options.rounding = arguments.rounding == "gptq"      ? optimize::Rounding::kGptq
                     : arguments.rounding == "nearest" ? optimize::Rounding::kNearest
                                                       : optimize::Rounding::kAuto;
  options.calibrate = compress::range_method_from_string(arguments.calibrate).value();
  options.quantize.older_readers = arguments.older_readers;
  options.quantize.zero_points = !arguments.no_zero_points;
  options.quantize.join_codes = arguments.join_codes;
  options.quantize.seven_bit_weights = arguments.seven_bit_weights;
  if (!arguments.min.empty()) {
    options.budget = quality::LossBudget::parse_min(arguments.min);
  } else if (!arguments.max_loss.empty()) {
    options.budget = quality::LossBudget::parse_max_loss(arguments.max_loss);
  }
  options.cache_dir = arguments.shared->cache_dir;
  options.pairs = arguments.pairs;
  options.max_seconds = arguments.seconds;
  options.command = typed_command();
  options.versions = versions();
  options.probe_memory = [engine = options.engine](const std::filesystem::path& model,
                                                   const engine::CompileOptions& compile) {
    const Probe result = probe(model, engine, compile);
    return optimize::MemoryUse{result.peak_bytes, result.loaded_bytes};
  };
  return options;
}

void print_forecast(const optimize::QuantizeForecast& forecast, bool mixed, bool json) {
  if (json) {
    Json layers = Json::array();
    for (const report::LayerRecord& layer : forecast.layers) {
      layers.push_back({{"layer", layer.layer},
                        {"op_type", layer.op_type},
                        {"format", layer.format},
                        {"bytes_before", layer.bytes_before},
                        {"bytes_after", layer.bytes_after}});
    }
    const Json result = {{"dry_run", true},
                         {"bytes_before", forecast.bytes_before},
                         {"bytes_after", forecast.bytes_after},
                         {"encode_seconds", forecast.encode_seconds},
                         {"total_seconds", forecast.total_seconds},
                         {"peak_memory_bytes", forecast.peak_memory_bytes},
                         {"opset", forecast.opset},
                         {"layers", layers}};
    std::puts(result.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  for (const report::LayerRecord& layer : forecast.layers) {
    fmt::print("  {:<48} {:<14} {:<12} {:>9} -> {:>9}\n", layer.layer, layer.op_type, layer.format,
               report::human_bytes(layer.bytes_before), report::human_bytes(layer.bytes_after));
  }
  fmt::print("expected: {} -> {} ({:.1f} %) in {} layers, opset {}; about {:.0f} s{} and {} of memory. Nothing was written\n",
             report::human_bytes(forecast.bytes_before), report::human_bytes(forecast.bytes_after),
             100.0 * static_cast<double>(forecast.bytes_after) / static_cast<double>(std::max<std::int64_t>(forecast.bytes_before, 1)),
             forecast.layers.size(), forecast.opset, std::max(forecast.total_seconds, 1.0),
             mixed ? " and as many trials as the mix needs" : "", report::human_bytes(forecast.peak_memory_bytes));
}

void run_quantize(const QuantizeArguments& arguments) {
  const optimize::QuantizeModelOptions options = options_of(arguments);
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  if (arguments.dry_run) {
    print_forecast(optimize::forecast_quantize(options, host), options.mixed, arguments.shared->json);
    return;
  }
  if (arguments.out.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no folder for the result was given",
                "-o OUT, or --dry-run to see what would be done");
  }
  const report::Report report = optimize::quantize_model(options, host);
  print_report(report, *arguments.shared, arguments.out);
}

}  // namespace

void add_quantize(CLI::App& app) {
  const auto arguments = std::make_shared<QuantizeArguments>();
  add_subject_arguments(app, arguments->subject,
                        "files and folders of real inputs to measure the loss on (default: made-up inputs, UNVERIFIED)");
  add_allow_command(app, arguments->subject);
  app.add_option("--scheme", arguments->scheme,
                 "int8, fp8: weights and activations; int4, int2, ternary, binary, fp8-e5m2, fp16, bf16: weights; mixed: int4 "
                 "weights where --max-loss (5%) allows, int8 or float for the layers that need it")
      ->required();
  app.add_flag("--weights-only", arguments->weights_only, "of int8 and fp8: leave activations in float, as the other schemes do");
  app.add_option("--calibrate", arguments->calibrate,
                 "how ranges of activations are found: minmax, moving_average, percentile, mse, entropy; auto: for each tensor "
                 "the one with the least error on samples held out")
      ->check(CLI::IsMember({"auto", "minmax", "moving_average", "percentile", "mse", "entropy"}))
      ->capture_default_str();
  app.add_flag("--no-zero-points", arguments->no_zero_points,
               "activations of both signs as symmetric int8: less exact, faster where kernels must correct for a zero point");
  app.add_flag("--join-codes", arguments->join_codes,
               "quantise what a Concat joins even where its readers compute in float: less exact, fewer bytes moved");
  app.add_flag("--seven-bit-weights", arguments->seven_bit_weights,
               "int8 codes within 63: sums of uint8 x int8 saturate on CPUs without VNNI");
  app.add_option("--block", arguments->block,
                 "weights that share a scale; 0: one for each output channel (default: 64 below 8 bits, else 0)")
      ->check(CLI::Range(0, 65536));
  app.add_flag("--per-tensor", arguments->per_tensor, "one scale for each weight");
  app.add_option("--rounding", arguments->rounding,
                 "how codes of weights alone are chosen: nearest; gptq (by the layers' outputs on the data); auto: with data both "
                 "are measured")
      ->check(CLI::IsMember({"auto", "nearest", "gptq"}))
      ->capture_default_str();
  app.add_option("--keep-float", arguments->keep_float, "leave this layer as it is; may be repeated (names: --dry-run)")
      ->take_all();
  app.add_flag("--every-layer", arguments->every_layer,
               "of weights alone: also the smallest layers, which stay in float since together they hold 0.5 % of the weights");
  app.add_flag("--older-readers", arguments->older_readers,
               "int4 and fp8 as packed bytes that any reader of opset 13 unpacks");
  app.add_flag("--dry-run", arguments->dry_run, "print expected sizes, layers, time and memory, and write nothing");
  app.add_option("-o,--out", arguments->out,
                 "folder for the result: model.onnx, model.recipe.toml, report.json, report.html");
  app.add_option("--max-loss", arguments->max_loss,
                 "write nothing and fail when more is lost: '5%' relative, or in the metric's own unit as '0.2dB'");
  app.add_option("--min", arguments->min, "instead: the least the metric or fidelity must reach, as '35dB'");
  app.add_option("--pairs", arguments->pairs, "interleaved pairs of timing")
      ->check(CLI::Range(5, 100000))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "most time spent on measuring latency")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--force", arguments->force, "write into a folder that holds other files");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kTargetOption | kCacheOption);
  app.footer("Example: tempera quantize efficientnet_lite0.onnx --scheme int4 --data photos/ -o small");
  app.callback([arguments] { run_quantize(*arguments); });
}

}  // namespace tempera::cli
