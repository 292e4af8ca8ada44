// The updates of many weights as one pass over memory.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "nn/optimization/update_simd.h"

namespace composer {

using UpdateRule = std::variant<SgdRule, AdamRule, RmspropRule>;

/// Threads share out one flat list of chunks, whatever the sizes of the weights. The list is made
/// again only when the sizes change.
class UpdatePass {
 public:
  void add(const UpdateRule& rule, const UpdateSpan& weight) { updates_.push_back({rule, weight}); }

  /// Makes the updates that were added since the last run.
  void run();
  /// Forgets them.
  void clear() { updates_.clear(); }

 private:
  struct Update {
    UpdateRule rule;
    UpdateSpan span;
  };
  struct Chunk {
    size_t update;
    int64_t begin, size;
  };

  void cut();

  std::vector<Update> updates_;
  std::vector<int64_t> sizes_;  ///< that chunks_ were made of
  std::vector<Chunk> chunks_;
};

}  // namespace composer
