#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "tempera/base/error.h"

/// OpenVINO's failures as Error.
namespace tempera::engine::openvino {

/// Describes the node of the model behind a layer's name ("node 'conv1' (Conv)"); empty when there is none.
using DescribeLayer = std::function<std::string(std::string_view layer)>;

/// The message without the lines that name OpenVINO's own source files.
[[nodiscard]] std::string plain_message(std::string_view message);

/// Name of the layer that a message complains about; empty when it names none.
[[nodiscard]] std::string layer_in_message(std::string_view message);

/// Rethrows the exception being handled as an Error: an Error as it is, std::bad_alloc as kOutOfMemory, others as
/// `code` with OpenVINO's own message, the node that it names as the innermost frame.
///
/// \param stage  what was being done, "compiling"
[[noreturn]] void rethrow(ErrorCode code, std::string_view stage, const DescribeLayer& describe);

}  // namespace tempera::engine::openvino
