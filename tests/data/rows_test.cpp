#include "data/rows.h"

#include <catch2/catch.hpp>

#include "data/memory_source.h"

using namespace composer;

TEST_CASE("the rows are those that are named", "[data]") {
  const MemorySource source("labels", {1, 1}, 1, std::vector<uint8_t>(4), {0, 0, 1, 1}, 4);
  CHECK(chosen_rows(source, "", true, {}).empty());
  CHECK(chosen_rows(source, "3,0-1", true, {}) == std::vector<int64_t>{3, 0, 1});
}
