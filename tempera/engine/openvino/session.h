#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <openvino/runtime/compiled_model.hpp>
#include <openvino/runtime/core.hpp>
#include <openvino/runtime/infer_request.hpp>

#include "tempera/engine/engine.h"
#include "tempera/engine/openvino/layer_names.h"

namespace tempera::engine::openvino {

/// One compiled model with one request. Inputs are read where they lie; outputs are copied out.
class OpenvinoSession : public Session {
 public:
  /// \param core,memory  kept alive as long as the session: the runtime, and what the compiled model was loaded from
  OpenvinoSession(std::shared_ptr<ov::Core> core, ov::CompiledModel compiled, const graph::Graph& graph,
                  LayerNames names, bool profile, std::shared_ptr<const std::byte> memory = nullptr);

  [[nodiscard]] const std::vector<Port>& inputs() const override { return inputs_; }
  [[nodiscard]] const std::vector<Port>& outputs() const override { return outputs_; }
  std::vector<graph::Tensor> run(std::span<const graph::Tensor> inputs) override;
  void run_and_show(std::span<const graph::Tensor> inputs,
                    const std::function<void(std::span<const graph::Tensor>)>& see) override;
  void start(std::span<const graph::Tensor> inputs) override;
  std::vector<graph::Tensor> wait() override;
  [[nodiscard]] std::vector<NodeTime> profile() const override;
  [[nodiscard]] std::map<std::string, std::string> settings() const override;

 private:
  void make_ports(const graph::Graph& graph);
  void make_room_for_packed_outputs();
  void prepare(std::span<const graph::Tensor> inputs);
  /// The outputs of the last run; with `lend`, where OpenVINO keeps them.
  [[nodiscard]] std::vector<graph::Tensor> collect(std::span<const graph::Tensor> inputs, bool lend = false);
  [[nodiscard]] std::string describe(std::string_view layer) const { return names_.describe(layer); }

  std::shared_ptr<ov::Core> core_;  // these two before what needs them, so destroyed after
  std::shared_ptr<const std::byte> memory_;
  ov::CompiledModel compiled_;
  ov::InferRequest request_;
  LayerNames names_;
  bool profile_ = false;
  std::vector<Port> inputs_;
  std::vector<std::optional<std::size_t>> input_index_;  // OpenVINO's number; none: no node reads it
  std::vector<Port> outputs_;
  std::vector<std::optional<std::size_t>> passed_on_;  // of each output: the input that it is, if any
  std::vector<graph::Tensor> pending_inputs_;  // alive until the run under way ends
  std::vector<std::vector<std::byte>> padded_;          // inputs that OpenVINO would read past their end
  std::vector<std::vector<std::byte>> padded_outputs_;  // outputs that it would write past their end
  bool running_ = false;
};

}  // namespace tempera::engine::openvino
