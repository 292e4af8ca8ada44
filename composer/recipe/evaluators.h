// The recipe's key `evaluators`: further sets that are evaluated on, by name.
#pragma once

#include <string>

namespace composer {

inline constexpr const char* evaluators_key = "evaluators";
inline constexpr const char* evaluators_doc =
    "further sets that are evaluated on: name -> dataset, eval_interval, subset_num_batches; their "
    "metrics are metrics/<name>/Accuracy";

/// What a name may be, as a regular expression.
inline constexpr const char* evaluator_name_pattern = "^(?!(eval|train)$)[A-Za-z0-9_-]+$";

/// What is wrong with the name of a set, to come after it in a message; empty: nothing.
inline std::string evaluator_name_problem(const std::string& name) {
  if (name == "eval") return "is val_dataset's name; choose another one";
  if (name == "train") return "would be taken for the training's metrics; choose another name";
  constexpr const char* allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.empty() || name.find_first_not_of(allowed) != std::string::npos)
    return "must be of letters, digits, _ and -, as it is part of the metrics' names";
  return "";
}

}  // namespace composer
