#pragma once

#include <cstddef>
#include <span>

namespace tempera::fuzz {

/// Reads bytes as a model; whatever is accepted must be a sound graph and survive all that is done with a model next.
/// \return whether the bytes were accepted
/// \throws anything but an Error of a kind that a bad file may cause: a fault
bool exercise_onnx(std::span<const std::byte> bytes);

}  // namespace tempera::fuzz
