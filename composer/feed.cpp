#include "composer/feed.h"

#include <ATen/record_function.h>

#include "composer/device.h"
#include "composer/normalize.h"

namespace composer {

std::optional<Batch> next_batch(Loader& loader) {
  RECORD_FUNCTION("dataloader", std::vector<c10::IValue>());
  return loader.next();
}

Batch to_device(const Batch& batch, const Normalization& normalization, const State& state) {
  return {normalize(copy_to(state.device, batch.input), normalization, state.memory_format),
          batch.target.to(state.device)};
}

}  // namespace composer
