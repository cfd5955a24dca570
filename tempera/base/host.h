#pragma once

#include "tempera/base/cancel.h"
#include "tempera/base/log.h"
#include "tempera/base/progress.h"

namespace tempera {

/// What long work is given by its caller: where remarks go, who is told how far it has come, and who may stop it.
/// Holds references; the caller keeps them alive for the call.
struct Host {
  Logger& log;
  Progress& progress;
  CancelToken cancel;
};

}  // namespace tempera
