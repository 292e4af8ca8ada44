#include "models/all.h"

#include "models/airbench.h"
#include "models/convnext.h"
#include "models/efficientnet.h"
#include "models/mnist_classifier.h"
#include "models/mobilenet_v3.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/vgg.h"
#include "models/wide_resnet.h"

namespace composer {

void add_builtin_models(Registry& registry) {
  registry.models.add<Airbench>("airbench", "the network of the CIFAR-10 speedruns");
  registry.models.add<ConvNeXt>("convnext", "ConvNeXt, tiny to large");
  registry.models.add<EfficientNet>("efficientnet", "EfficientNet, b0 to b4");
  registry.models.add<MobileNetV3>("mobilenet_v3", "MobileNetV3, large and small");
  registry.models.add<Vgg>("vgg", "VGG with batch norm, depth 11 to 19");
  registry.models.add<WideResNet>("wide_resnet", "wide residual networks for small images");
  registry.models.add<ResNet>("resnet", "residual networks for ImageNet, depth 18 to 152");
  registry.models.add<ResNetCifar>("resnet_cifar",
                                   "residual networks for small images, depth 9, 20 or 56");
  registry.models.add<MnistClassifier>("mnist_classifier",
                                       "a small convolutional network for MNIST");
}

}  // namespace composer
