// What a loader hands out, as plain bytes that tests compare.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace composer {

class Loader;
struct RawBatch;

namespace test {

struct PlainBatch {
  std::vector<int64_t> shape;
  std::string pixels;
  std::vector<int64_t> classes;
  bool operator==(const PlainBatch&) const = default;
};

std::ostream& operator<<(std::ostream& out, const PlainBatch& batch);

/// Of a batch of bytes with classes.
PlainBatch plain(const RawBatch& batch);

/// The batches until the end of the epoch.
std::vector<PlainBatch> rest_of_epoch(Loader& loader);

}  // namespace test
}  // namespace composer
