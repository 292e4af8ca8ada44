// A network of the field's, for tests that need its depth.
#pragma once

#include <memory>
#include <vector>

#include "models/resnet_cifar.h"

namespace composer::test {

/// The same weights at each call.
inline std::shared_ptr<Model> resnet20() {
  at::manual_seed(5);
  return std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {"kaiming_normal"}});
}

/// One for each of two ranks.
inline std::vector<std::shared_ptr<Model>> two_models() { return {resnet20(), resnet20()}; }

}  // namespace composer::test
