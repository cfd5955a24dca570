#include "onnx_target.h"

#include <functional>
#include <stdexcept>
#include <string>

#include "tempera/base/error.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"

namespace tempera::fuzz {
namespace {

void rethrow_faults(const Error& error) {
  if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kOutOfMemory) {
    throw std::logic_error(error.text());
  }
}

// Whether the step went through; a refusal is fine.
bool attempt(const std::function<void()>& step) {
  try {
    step();
    return true;
  } catch (const Error& e) {
    rethrow_faults(e);
    return false;
  }
}

}  // namespace

bool exercise_onnx(std::span<const std::byte> bytes) {
  graph::Model model;
  if (!attempt([&] { model = onnx::read_model(bytes); })) {
    return false;
  }
  graph::verify(model.graph);
  const std::string written = onnx::serialize(model);
  const graph::Model again = onnx::read_model(std::as_bytes(std::span(written)));
  // Compared as written: the first writing may rename what hides outer names and copy outer values that bodies return.
  if (onnx::serialize(again) != written) {
    throw std::logic_error("a model changed by writing and reading");
  }
  attempt([&] {
    graph::Model typed = model;
    onnx::infer_types(typed);
    graph::verify(typed.graph);
  });
  attempt([&] { graph::verify(onnx::inline_functions(model).graph); });
  attempt([&] { graph::verify(onnx::convert_opset(model, onnx::kNewestOpset).graph); });
  attempt([&] { onnx::check_model(model); });
  return true;
}

}  // namespace tempera::fuzz
