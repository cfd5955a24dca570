#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tempera/base/error.h"

/// The library: load a model, make it faster with proof, compile it, run it. Everything throws
/// tempera::Error.
namespace tempera {

using Shape = std::vector<std::int64_t>;

/// An array in row-major order. `type` is ONNX's own lower-case name of the element type: "float", "int64",
/// "uint8", ...
struct Array {
  std::string type = "float";
  Shape shape;
  std::vector<std::byte> bytes;

  static Array of(Shape shape, std::span<const float> values);
  static Array of(Shape shape, std::span<const std::int64_t> values);

  /// \throws Error{kInvalidArgument} when `type` is not "float"
  [[nodiscard]] std::span<const float> floats() const;
};

/// One input or output. A dimension of -1 is not fixed.
struct Port {
  std::string name;
  std::string type;
  Shape shape;
};

/// Where and how a model runs.
struct RunOptions {
  std::string engine = "openvino";      ///< or "torch"
  std::string device = "cpu";           ///< or "cuda:0" for the torch engine
  std::string precision = "f32";        ///< "f32", "bf16", "f16"
  int threads = 0;                      ///< 0: one for each core
  std::map<std::string, Shape> shapes;  ///< fixes inputs by name
};

/// A compiled model. One run at a time; several programs may run at once.
class Program {
 public:
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  [[nodiscard]] const std::vector<Port>& inputs() const;
  [[nodiscard]] const std::vector<Port>& outputs() const;

  /// \param inputs  in the order of inputs()
  /// \return in the order of outputs()
  [[nodiscard]] std::vector<Array> run(std::span<const Array> inputs);

 private:
  friend class Model;
  struct State;
  explicit Program(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// An ONNX model. A value; copies share the weights.
class Model {
 public:
  /// \throws Error{kNotFound, kIo, kBadModel, kUnsupported}
  static Model load(const std::string& path);

  /// Writes the file whole or not at all.
  void save(const std::string& path) const;

  [[nodiscard]] std::vector<Port> inputs() const;
  [[nodiscard]] std::vector<Port> outputs() const;
  [[nodiscard]] std::int64_t parameters() const;

  [[nodiscard]] Program compile(const RunOptions& options = {}) const;

 private:
  struct State;
  explicit Model(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// What `tempera optimize` takes; see its help.
struct OptimizeOptions {
  std::string model;
  std::vector<std::string> data;  ///< files and folders; "random" for made-up inputs
  std::string out;                ///< folder for model.onnx, model.recipe.toml, report.json, report.html
  std::string engine = "openvino";
  std::string max_loss = "5%";
  std::string precision;  ///< only this one; empty: each that the engine computes natively
  int threads = 0;
  bool force = false;
  std::uint64_t seed = 0;
  /// Told how far the work has come; total 0 when unknown. May be called from other threads.
  std::function<void(const std::string& stage, std::int64_t done, std::int64_t total)> progress;
};

struct OptimizeResult {
  bool changed = false;  ///< false: nothing was faster, and the original was written
  double speedup = 1.0;  ///< median of paired ratios, original over result
  double speedup_lower95 = 1.0;
  std::string summary;
  std::string json;  ///< the whole report
};

/// The main job: a faster model within a loss budget, verified as written. OUT appears whole or not at all.
[[nodiscard]] OptimizeResult optimize_model(const OptimizeOptions& options);

}  // namespace tempera
