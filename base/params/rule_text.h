// The rules of a field read back from its text, for those who tell of them in another language.
#pragma once

#include "base/params/params.h"

namespace composer {

/// What Field::rules says: "in [0, 1]", "at least 1, or -1", "resize or crop". Rules without a text
/// (required, later) are not among them.
Rules rules_of(const Field& field);

}  // namespace composer
