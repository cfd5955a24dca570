#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tempera::ops {

/// The equation of an Einsum node, "bhid,bhjd->bhij", taken apart.
struct EinsumForm {
  std::vector<std::string> operands;  ///< one string of labels for each input
  std::string result;
};

/// Reads an equation without an ellipsis; an absent result is every label that occurs once, in alphabetical order.
/// Nothing when it has an ellipsis or is malformed.
[[nodiscard]] std::optional<EinsumForm> parse_einsum(std::string_view equation);

/// Whether the form is that of `equation` with other letters: "zab,zac->zbc" is "bct,bcs->bts". Both hold two operands,
/// in the order given.
[[nodiscard]] bool same_contraction(const EinsumForm& form, std::string_view equation);

}  // namespace tempera::ops
