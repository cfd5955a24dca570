#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::engine {

/// Precision in which an engine computes floating-point operators. Always set by us: an engine left alone may pick bf16
/// in silence on a CPU that has it.
enum class Precision : std::uint8_t { kFloat32, kBfloat16, kFloat16 };

[[nodiscard]] std::string_view to_string(Precision precision);  ///< "f32", "bf16", "f16"
[[nodiscard]] std::optional<Precision> precision_from_string(std::string_view name);

/// What an engine can do on this machine.
struct Attributes {
  std::string name;
  std::string version;
  std::vector<std::string> devices;    ///< "cpu", "cuda:0", ...; empty when none is usable
  std::vector<Precision> precisions;   ///< those the hardware computes natively, the first is the default
  bool integer_layers = false;         ///< computes layers between QuantizeLinear and DequantizeLinear in integers
  std::int64_t max_opset = 0;          ///< highest ai.onnx opset its reader takes; 0: any
  bool dynamic_shapes = true;
  bool deterministic = true;           ///< same inputs and options, same bits
};

struct CompileOptions {
  std::string device = "cpu";
  Precision precision = Precision::kFloat32;
  int threads = 0;                                  ///< 0: one for each core of this process
  std::map<std::string, graph::Dims> input_shapes;  ///< fixes inputs by name; others keep the shapes they have
  bool exact = false;  ///< switch off what trades exactness for speed beyond `precision` (dynamic quantisation, denormals)
  bool profile = false;                             ///< collect Session::profile()
  bool bind_threads = true;  ///< to cores, where the engine does so; false: other sessions run at the same time
  std::filesystem::path cache_dir;                  ///< compiled models; empty: none
  std::map<std::string, std::string> properties;    ///< the engine's own settings, by its own names
};

/// One input or output of a session.
struct Port {
  std::string name;
  graph::ValueType type;
};

/// Time spent in one node during the last run.
struct NodeTime {
  std::string node;         ///< name of the node in the graph as given (its first output's when it has none); the engine's
                            ///< own layer name when it maps to none
  std::string op_type;      ///< as the engine calls it
  std::string kernel;       ///< implementation and its precision, "brgconv_avx512_amx_bf16"
  double time_us = 0.0;
  bool from_model = false;  ///< maps to a node of the graph (else inserted by the engine: reorders, conversions)
  std::vector<std::string> fused;  ///< further nodes of the graph computed within it
};

/// A compiled model, ready to run. One run at a time; several sessions may run at once.
class Session {
 public:
  virtual ~Session() = default;

  [[nodiscard]] virtual const std::vector<Port>& inputs() const = 0;
  [[nodiscard]] virtual const std::vector<Port>& outputs() const = 0;

  /// Runs on the engine's own threads and returns when done.
  ///
  /// \param inputs  in the order of inputs(); not changed, not kept
  /// \return one tensor for each of outputs(), owned by the caller
  /// \throws Error{kInvalidArgument} on a wrong number, type or shape; Error{kEngineFailed} when the engine fails
  virtual std::vector<graph::Tensor> run(std::span<const graph::Tensor> inputs) = 0;

  /// Runs and shows the outputs where the engine keeps them: for many or large outputs that are only looked at. The default
  /// copies.
  ///
  /// \param see  called once with one tensor for each of outputs(); they are gone when it returns
  /// \throws as run(), and what `see` throws
  virtual void run_and_show(std::span<const graph::Tensor> inputs,
                            const std::function<void(std::span<const graph::Tensor>)>& see) {
    see(run(inputs));
  }

  /// Starts a run without waiting; results come from wait(). One at a time. The default runs at once.
  virtual void start(std::span<const graph::Tensor> inputs) { pending_ = run(inputs); }
  virtual std::vector<graph::Tensor> wait() { return std::move(pending_); }

  /// Per-node times of the last run, longest first; empty unless compiled with `profile`.
  [[nodiscard]] virtual std::vector<NodeTime> profile() const { return {}; }

  /// What the engine really did: precision, threads, kernels chosen; for reports, by the engine's own names.
  [[nodiscard]] virtual std::map<std::string, std::string> settings() const { return {}; }

 private:
  std::vector<graph::Tensor> pending_;
};

/// Why an engine cannot take a node.
struct Unsupported {
  std::string node;
  std::string op_type;
  std::string reason;
};

/// Turns models into sessions. An engine compiles the graph as given and never rewrites it through our passes.
class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const Attributes& attributes() const = 0;

  /// Nodes of the model that this engine cannot run; empty when it can run all.
  [[nodiscard]] virtual std::vector<Unsupported> unsupported(const graph::Model& model) const = 0;

  /// \throws Error{kUnsupported} naming the nodes it cannot run, Error{kEngineFailed} with the engine's own message
  [[nodiscard]] virtual std::unique_ptr<Session> compile(const graph::Model& model,
                                                         const CompileOptions& options) const = 0;
};

}  // namespace tempera::engine
