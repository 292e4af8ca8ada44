#include "models/mnist_classifier.h"

#include "models/network_declaration.h"
#include "nn/network/layers.h"

namespace composer {

MnistClassifier::MnistClassifier(const Params& params)
    : NamedNetwork("mnist_classifier", params.num_classes, /*stride=*/1) {
  add<Conv2d>("conv1", Conv2dOptions{.in_channels = 1, .out_channels = 16, .kernel = {3, 3}});
  add<ReLU>("relu1", /*in_place=*/true);
  add<Conv2d>("conv2", Conv2dOptions{.in_channels = 16, .out_channels = 32, .kernel = {3, 3}});
  add<BatchNorm2d>("bn", 32).then(Activation::relu);
  add<AdaptiveAvgPool2d>("pool", 4);
  add<Linear>("fc1", 32 * 4 * 4, 32);
  add<ReLU>("relu3", /*in_place=*/true);
  add<Linear>("fc2", 32, params.num_classes);
  apply_initializers(*this, params.initializers);
}

NetworkDeclaration mnist_classifier_network() {
  return declare_network<MnistClassifier>("mnist_classifier",
                                          "a small convolutional network for MNIST", {28, 28});
}

}  // namespace composer
