// Several ranks in one test: threads of its process that meet over Gloo.
#pragma once

#include <functional>

#include "nn/distributed/ranks.h"

namespace composer::test {

/// Calls `body` in `size` threads, each with its rank among them. Throws what the first of them
/// threw, other than LostRankError where another one has more to say.
void in_ranks(int64_t size, const std::function<void(const Ranks&)>& body,
              double timeout_seconds = 60);

}  // namespace composer::test
