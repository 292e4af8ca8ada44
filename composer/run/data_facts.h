// What a data set can tell of itself before it is trained on, for values of a recipe that are left
// to the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "composer/loop/loader.h"

namespace composer {

struct DataFacts {
  /// To train on, of each class that has some, a split's evaluation included. Of a set with values
  /// all are of class 0.
  std::map<int64_t, int64_t> samples{};
  /// Pixels: the middle one of the shorter sides of some images that can be read; 0: of none.
  int64_t side = 0;
  int64_t looked_at = 0;        ///< how many images these are
  bool has_evaluation = false;  ///< there is a part to evaluate on beside these samples
};

/// A Dataset may be one too.
class TellsFacts {
 public:
  virtual ~TellsFacts() = default;
  /// Reads which samples there are, and some images. Nothing where the data cannot tell. UserError
  /// as Dataset::open().
  virtual std::optional<DataFacts> facts(const LoaderOptions& options) const = 0;
};

}  // namespace composer
