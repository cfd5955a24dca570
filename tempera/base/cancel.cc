#include "tempera/base/cancel.h"

#include "tempera/base/error.h"

namespace tempera {

void CancelToken::throw_if_cancelled() const {
  if (cancelled()) {
    throw Error(ErrorCode::kCancelled, "cancelled");
  }
}

}  // namespace tempera
