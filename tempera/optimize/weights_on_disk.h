#pragma once

#include <filesystem>

#include "tempera/graph/model.h"

namespace tempera::optimize {

/// Moves the initialisers of 64 KiB and more, those of bodies as well, from memory to a nameless file, from which they are
/// mapped; what is mapped already stays, and initialisers that share their bytes go on sharing them. A compiled model holds
/// weights of its own, so those of the graph are rarely read, and engine::release_freed_memory() then frees their pages.
///
/// \param folder  on the disk to use; made when weights go there
/// \throws Error{kIo}, for example on a full disk
void move_weights_to_disk(graph::Model& model, const std::filesystem::path& folder);

}  // namespace tempera::optimize
