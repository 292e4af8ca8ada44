// For the tests of kept coefficients: keeps those of one stream in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/jpeg/decoder.h"

namespace composer::test {

struct KeptInMemory : JpegKept {
  std::vector<uint8_t> own_table, own_rows;

  KeptInMemory() {
    wanted = true;
    read = [this](uint64_t at, std::span<uint8_t> to) {
      if (at > own_rows.size() || to.size() > own_rows.size() - at) return false;
      std::copy_n(own_rows.data() + at, to.size(), to.data());
      return true;
    };
  }
  KeptInMemory(const KeptInMemory&) = delete;
  KeptInMemory& operator=(const KeptInMemory&) = delete;

  /// Keeps what the last decode made. False where it made nothing.
  bool take() {
    if (!made) return false;
    own_table = made_table;
    own_rows.assign(made_rows.begin(), made_rows.end());
    table = own_table;
    return true;
  }
};

}  // namespace composer::test
