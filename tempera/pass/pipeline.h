#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// One line of the ordered list.
struct Step {
  Pass pass;
  std::string_view group;     ///< folder: "cleanup", "fold", "fuse", "layout", "recognise"
  std::string_view why_here;  ///< what it needs done before, or does for those after
  bool late = false;          ///< joins the rounds only once the others have nothing left to do
};

/// Every pass, in the order in which a round runs them.
[[nodiscard]] std::span<const Step> pipeline();

/// Names in the same order, for --list-passes and for "did you mean".
[[nodiscard]] std::vector<std::string> pass_names();

/// The list as a Markdown table: name, group, what it does, why it stands there. docs/passes.md holds it.
[[nodiscard]] std::string pipeline_table();

}  // namespace tempera::pass
