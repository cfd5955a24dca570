/// Fuzz target: reads bytes as a recipe; what is read must be written and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tempera/base/error.h"
#include "tempera/data/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace td = tempera::data;
  td::Recipe recipe;
  try {
    recipe = td::parse_recipe({reinterpret_cast<const char*>(data), size});
  } catch (const tempera::Error&) {
    return 0;
  }
  const std::string text = td::to_toml(recipe);
  if (td::to_toml(td::parse_recipe(text)) != text) {
    std::abort();
  }
  return 0;
}
