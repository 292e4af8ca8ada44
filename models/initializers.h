// Ways to initialise weights, by the names that recipes use.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace composer {

class Conv2d;
class Linear;

/// Fills the weights of every module of `model` in place, one initializer after another in the
/// given order, from LibTorch's default generator (at::manual_seed). UserError for an unknown name.
/// With fan_in = the number of inputs of one output:
/// - kaiming_normal: Conv2d and Linear weights from N(0, 2 / fan_in) (He et al. 2015,
///     arXiv:1502.01852)
/// - kaiming_uniform: the same from U(-b, b), b = sqrt(6 / fan_in)
/// - xavier_uniform: the same with b = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)
/// - bn_uniform: BatchNorm2d weights from U(0, 1), biases 0
/// - bn_ones: BatchNorm2d weights 1, biases 0
/// - linear_log_constant_bias: Linear biases -ln(out_features), for binary cross-entropy
void apply_initializers(torch::nn::Module& model, const std::vector<std::string>& names);

/// Weights from N(0, 2 / fan_out), fan_out = output channels * kernel's height * width; biases 0.
void kaiming_normal_fan_out(Conv2d& conv);

/// Weights from N(0, 0.01^2), biases 0.
void narrow_normal(Linear& linear);

/// The names of all initializers, sorted.
std::vector<std::string> initializer_names();

}  // namespace composer
