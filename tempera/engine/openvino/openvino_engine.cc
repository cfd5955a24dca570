#include "tempera/engine/openvino/openvino_engine.h"

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openvino/core/version.hpp>
#include <openvino/runtime/core.hpp>
#include <openvino/runtime/intel_cpu/properties.hpp>
#include <openvino/runtime/properties.hpp>

#include "tempera/base/error.h"
#include "tempera/base/file_cache.h"
#include "tempera/engine/openvino/model_import.h"
#include "tempera/engine/openvino/ov_error.h"
#include "tempera/engine/openvino/session.h"
#include "tempera/onnx/write.h"

namespace tempera::engine {
namespace openvino {
namespace {

constexpr const char* kDevice = "CPU";

// Newest ai.onnx opset whose models were tried: OpenVINO reads a newer operator by the newest version it knows.
constexpr std::int64_t kNewestTriedOpset = 28;

ov::element::Type element_of(Precision precision) {
  switch (precision) {
    case Precision::kBfloat16: return ov::element::bf16;
    case Precision::kFloat16: return ov::element::f16;
    case Precision::kFloat32: break;
  }
  return ov::element::f32;
}

std::vector<Precision> native_precisions(const ov::Core& core) {
  std::vector<Precision> result{Precision::kFloat32};
  for (const std::string& name : core.get_property(kDevice, ov::device::capabilities)) {
    if (name == ov::device::capability::BF16) {
      result.push_back(Precision::kBfloat16);
    } else if (name == ov::device::capability::FP16) {
      result.push_back(Precision::kFloat16);
    }
  }
  return result;
}

bool computes_int8(const ov::Core& core) {
  const std::vector<std::string> names = core.get_property(kDevice, ov::device::capabilities);
  return std::find(names.begin(), names.end(), ov::device::capability::INT8) != names.end();
}

// "2026.4.1" of "2026.4.1-22982-e213a147257-releases/2026/4"
std::string version() {
  const std::string build = ov::get_openvino_version().buildNumber;
  return build.substr(0, build.find('-'));
}

int thread_count(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

ov::AnyMap properties_of(const CompileOptions& options) {
  ov::AnyMap properties{
      ov::hint::inference_precision(element_of(options.precision)),
      ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
      ov::num_streams(1),
      ov::inference_num_threads(thread_count(options.threads)),
      ov::enable_profiling(options.profile),
  };
  if (options.exact) {
    properties.insert(ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY));
    properties.insert(ov::hint::dynamic_quantization_group_size(0));
    properties.insert(ov::hint::kv_cache_precision(element_of(options.precision)));
    properties.insert(ov::intel_cpu::denormals_optimization(false));
  }
  if (!options.bind_threads) {  // else the threads of every session are bound to the same first cores
    properties.insert(ov::hint::enable_cpu_pinning(false));
  }
  for (const auto& [name, value] : options.properties) {
    properties[name] = value;
  }
  return properties;
}

void fix_shapes(ov::Model& model, const std::map<std::string, graph::Dims>& shapes) {
  std::map<std::string, ov::PartialShape> present;
  std::vector<std::string> names;
  for (const auto& input : model.inputs()) {
    for (const std::string& name : input.get_names()) {
      present.emplace(name, input.get_partial_shape());
      names.push_back(name);
    }
  }
  std::map<std::string, ov::PartialShape> fixed;
  for (const auto& [name, dims] : shapes) {
    const auto found = present.find(name);
    if (found == present.end()) {
      throw Error(ErrorCode::kNotFound, unknown_name("input", name, names));
    }
    (void)graph::element_count(dims);  // refuses negative sizes and overflow
    const ov::Rank rank = found->second.rank();
    if (rank.is_static() && rank.get_length() != static_cast<std::int64_t>(dims.size())) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' has {} dimensions, but its shape is to be {}", name, rank.get_length(),
                              graph::to_string(dims)));
    }
    fixed[name] = ov::PartialShape(std::vector<ov::Dimension>(dims.begin(), dims.end()));
  }
  if (!fixed.empty()) {
    model.reshape(fixed);
  }
}

// Of all compiled models together; a model with more weights than half of this is not kept.
constexpr std::int64_t kCacheBytes = std::int64_t{4} << 30;

bool wants_cache(const graph::Model& model, const CompileOptions& options) {
  // A profile needs OpenVINO's own copy of the model, to map decomposed operators back to their nodes.
  return !options.cache_dir.empty() && !options.profile && graph::weight_size(model.graph).bytes < kCacheBytes / 2;
}

class OpenvinoEngine : public Engine {
 public:
  OpenvinoEngine() {
    try {
      core_ = std::make_shared<ov::Core>();
      attributes_.name = "openvino";
      attributes_.version = version();
      attributes_.devices = {"cpu"};
      attributes_.precisions = native_precisions(*core_);
      attributes_.integer_layers = computes_int8(*core_);
      attributes_.max_opset = kNewestTriedOpset;
    } catch (...) {
      rethrow(ErrorCode::kEngineUnavailable, "starting", nullptr);
    }
  }

  [[nodiscard]] const Attributes& attributes() const override { return attributes_; }
  [[nodiscard]] std::vector<Unsupported> unsupported(const graph::Model& model) const override;
  [[nodiscard]] std::unique_ptr<Session> compile(const graph::Model& model,
                                                 const CompileOptions& options) const override;

 private:
  void check_options(const CompileOptions& options) const;
  [[nodiscard]] ov::CompiledModel compile_imported(const Imported& imported, const CompileOptions& options) const;
  [[nodiscard]] std::unique_ptr<Session> compile_cached(const graph::Model& model, const CompileOptions& options) const;
  [[nodiscard]] Sha256Digest cache_key(const graph::Model& model, const CompileOptions& options) const;

  std::shared_ptr<ov::Core> core_;
  Importer importer_;
  Attributes attributes_;
};

void OpenvinoEngine::check_options(const CompileOptions& options) const {
  if (options.device != "cpu") {
    throw Error(ErrorCode::kNotFound, unknown_name("device of the openvino engine", options.device, attributes_.devices));
  }
  const auto& native = attributes_.precisions;
  if (std::find(native.begin(), native.end(), options.precision) == native.end()) {
    std::vector<std::string_view> names;
    std::transform(native.begin(), native.end(), std::back_inserter(names), [](Precision p) { return to_string(p); });
    throw Error(ErrorCode::kUnsupported, fmt::format("this CPU does not compute in {}, only in {}",
                                                     to_string(options.precision), fmt::join(names, ", ")));
  }
  if (options.threads < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("threads is {}, expected 0 or more", options.threads));
  }
  std::vector<std::string> known;
  for (const ov::PropertyName& name : core_->get_property(kDevice, ov::supported_properties)) {
    if (name.is_mutable()) {
      known.push_back(name);
    }
  }
  for (const auto& [name, value] : options.properties) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ErrorCode::kNotFound, unknown_name("OpenVINO property", name, known));
    }
  }
}

std::vector<Unsupported> OpenvinoEngine::unsupported(const graph::Model& model) const {
  std::vector<Unsupported> result = importer_.unconvertible(model);
  if (!result.empty()) {
    return result;
  }
  try {
    const Imported imported = importer_.import(model);
    const ov::SupportedOpsMap supported = core_->query_model(imported.model, kDevice);
    for (const auto& layer : imported.model->get_ordered_ops()) {
      const auto* node = imported.names.find(layer->get_friendly_name());
      if (node != nullptr && supported.count(layer->get_friendly_name()) == 0) {
        result.push_back({node->name, node->op_type,
                          fmt::format("OpenVINO's CPU plugin has no {}", layer->get_type_name())});
      }
    }
  } catch (const Error& e) {
    result.push_back({"", "", e.what()});
  } catch (const std::exception& e) {
    result.push_back({"", "", plain_message(e.what())});
  }
  return result;
}

ov::CompiledModel OpenvinoEngine::compile_imported(const Imported& imported, const CompileOptions& options) const {
  const auto describe = [&imported](std::string_view layer) { return imported.names.describe(layer); };
  try {
    fix_shapes(*imported.model, options.input_shapes);
  } catch (...) {
    rethrow(ErrorCode::kInvalidArgument, "fixing the input shapes", describe);
  }
  try {
    return core_->compile_model(imported.model, kDevice, properties_of(options));
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "compiling", describe);
  }
}

Sha256Digest OpenvinoEngine::cache_key(const graph::Model& model, const CompileOptions& options) const {
  Sha256 hash;
  const auto add = [&hash](std::string_view text) {
    hash.update(fmt::format("{}:", text.size()));
    hash.update(text);
  };
  add(ov::get_openvino_version().buildNumber);
  add(core_->get_property(kDevice, ov::device::full_name));
  add(fmt::format("{}", fmt::join(core_->get_property(kDevice, ov::device::capabilities), " ")));
  for (const auto& [name, value] : properties_of(options)) {
    add(name);
    add(value.as<std::string>());
  }
  for (const auto& [name, dims] : options.input_shapes) {
    add(name);
    add(graph::to_string(dims));
  }
  hash.update(onnx::content_hash(model));
  return hash.finish();
}

std::unique_ptr<Session> OpenvinoEngine::compile_cached(const graph::Model& model, const CompileOptions& options) const {
  const FileCache cache(options.cache_dir / fmt::format("openvino-{}", attributes_.version), kCacheBytes);
  const Sha256Digest key = cache_key(model, options);
  if (const auto entry = cache.find(key)) {
    try {
      const ov::Tensor blob(ov::element::u8, {entry->content.size()}, static_cast<const void*>(entry->content.data()));
      ov::CompiledModel compiled = core_->import_model(blob, kDevice, properties_of(options));
      return std::make_unique<OpenvinoSession>(core_, std::move(compiled), model.graph, LayerNames(model.graph),
                                               options.profile, entry->file.data);
    } catch (const ov::Exception&) {
      // OpenVINO refuses what it wrote itself, for example on a CPU of other features: compiled anew below.
    }
  }
  Imported imported = importer_.import(model);
  ov::CompiledModel compiled = compile_imported(imported, options);
  std::ostringstream blob;
  try {
    compiled.export_model(blob);
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "saving the compiled model", nullptr);
  }
  cache.put(key, blob.view());
  return std::make_unique<OpenvinoSession>(core_, std::move(compiled), model.graph, std::move(imported.names),
                                           options.profile);
}

std::unique_ptr<Session> OpenvinoEngine::compile(const graph::Model& model, const CompileOptions& options) const {
  check_options(options);
  if (wants_cache(model, options)) {
    return compile_cached(model, options);
  }
  Imported imported = importer_.import(model);
  ov::CompiledModel compiled = compile_imported(imported, options);
  return std::make_unique<OpenvinoSession>(core_, std::move(compiled), model.graph, std::move(imported.names),
                                           options.profile);
}

}  // namespace
}  // namespace openvino

std::unique_ptr<Engine> make_openvino_engine() { return std::make_unique<openvino::OpenvinoEngine>(); }

}  // namespace tempera::engine
