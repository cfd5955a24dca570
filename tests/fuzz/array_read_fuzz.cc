/// Fuzz target: reads bytes as a NumPy array and as an archive of arrays.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tempera/base/error.h"
#include "tempera/data/npy.h"
#include "tempera/data/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace td = tempera::data;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tempera::graph::Tensor tensor = td::decode_npy(bytes);
    (void)td::decode_npy(td::encode_npy(tensor));
  } catch (const tempera::Error&) {  // the only exception that may come
  }
  try {
    const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    constexpr std::size_t kMaxMember = std::size_t{64} << 20;
    const td::NpzFile file(tempera::MappedFile{{copy, copy->data()}, copy->size()}, "fuzz.npz", kMaxMember);
    for (const std::string& name : file.names()) {
      (void)file.header(name);
      (void)file.read(name);
    }
  } catch (const tempera::Error&) {
  }
  return 0;
}
