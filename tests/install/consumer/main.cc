#include <cstdio>

#include <tempera/tempera.h>

// Links the library and catches its exception across the border.
int main() {
  try {
    (void)tempera::Model::load("no-such-model.onnx");
  } catch (const tempera::Error& error) {
    std::fputs(error.text().c_str(), stdout);
    return error.code() == tempera::ErrorCode::kNotFound ? 0 : 1;
  }
  return 1;
}
