#include "tests/data/plain_batch.h"

#include "composer/loop/loader.h"
#include "nn/network/batch.h"

namespace composer::test {

std::ostream& operator<<(std::ostream& out, const PlainBatch& batch) {
  out << "classes";
  for (const int64_t one : batch.classes) out << ' ' << one;
  return out;
}

PlainBatch plain(const RawBatch& batch) {
  const auto* pixels = reinterpret_cast<const char*>(batch.images.const_data_ptr<uint8_t>());
  const auto* classes = batch.target.classes.const_data_ptr<int64_t>();
  return {batch.images.sizes().vec(),
          {pixels, pixels + batch.images.numel()},
          {classes, classes + batch.target.classes.numel()}};
}

std::vector<PlainBatch> rest_of_epoch(Loader& loader) {
  std::vector<PlainBatch> batches;
  while (const auto batch = loader.next()) batches.push_back(plain(*batch));
  return batches;
}

}  // namespace composer::test
