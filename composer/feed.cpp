#include "composer/feed.h"

#include <ATen/record_function.h>

#include "composer/normalize.h"

namespace composer {

std::optional<RawBatch> next_batch(Loader& loader) {
  RECORD_USER_SCOPE("dataloader");
  return loader.next();
}

Batch normalized(const RawBatch& batch, const Normalization& normalization, const State& state) {
  return {normalize(batch.images, normalization, state.memory_format), batch.target};
}

}  // namespace composer
