#include "models/all.h"

#include "models/airbench.h"
#include "models/mnist_classifier.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"

namespace composer {

void add_builtin_models(Registry& registry) {
  registry.models.add<Airbench>("airbench", "the network of the CIFAR-10 speedruns");
  registry.models.add<ResNet>("resnet", "residual networks for ImageNet, depth 18 to 152");
  registry.models.add<ResNetCifar>("resnet_cifar",
                                   "residual networks for small images, depth 9, 20 or 56");
  registry.models.add<MnistClassifier>("mnist_classifier",
                                       "a small convolutional network for MNIST");
}

}  // namespace composer
