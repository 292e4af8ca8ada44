#include "inference/runtime.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "inference/fold.h"
#include "inference/fused_operation.h"
#include "inference/int8_layer.h"
#include "inference/onednn.h"
#include "inference/packed_layer.h"
#include "inference/pooling.h"
#include "inference/quantization/codes.h"
#include "nn/device/one_thread.h"
#include "nn/network/normalize.h"

namespace composer {
namespace {

/// The tensors of one pass through a network, as numbers or as codes.
class PassValues {
 public:
  /// codes: scale and zero point of the values that are held as codes, by index of the value.
  PassValues(size_t count, const std::map<size_t, Affine>& codes, int64_t activation_bits)
      : held_(count), affine_(codes), bits_(activation_bits) {}

  void set_numbers(size_t value, at::Tensor tensor) {
    const auto found = affine_.find(value);
    held_[value] =
        found == affine_.end() ? std::move(tensor) : codes_of(tensor, found->second, bits_);
  }
  void set_codes(size_t value, at::Tensor tensor) { held_[value] = std::move(tensor); }
  void drop(size_t value) { held_[value].reset(); }

  at::Tensor numbers(size_t value) const {
    const auto found = affine_.find(value);
    return found == affine_.end() ? held_[value] : numbers_of(held_[value], found->second);
  }
  /// The tensor as it is held: codes, or numbers where the value has no codes.
  const at::Tensor& codes(size_t value) const { return held_[value]; }

 private:
  std::vector<at::Tensor> held_;
  const std::map<size_t, Affine>& affine_;
  int64_t bits_;
};

void check_precision(const TrainedNetwork& network, RunPrecision precision) {
  if (precision == RunPrecision::fp32) return;
  if (!network.quantization.empty())
    throw UserError("bf16: a quantized network computes with codes, and where it has none in fp32");
  if (!find_operator<bool()>("mkldnn::_is_mkldnn_bf16_supported").call())
    throw UserError("bf16: this processor has no instructions for it");
}

bool is_norm(OperationKind kind) {
  return kind == OperationKind::batch_norm || kind == OperationKind::group_norm ||
         kind == OperationKind::layer_norm;
}

/// Whether the output may lie in the input's memory.
bool is_view(OperationKind kind) {
  return kind == OperationKind::flatten || kind == OperationKind::expand ||
         kind == OperationKind::to_nchw || kind == OperationKind::to_nhwc ||
         kind == OperationKind::unsqueeze;
}

/// The constant; a float32 constant is converted to the type.
at::Tensor in_type(const at::Tensor& constant, at::ScalarType type) {
  return constant.defined() && constant.scalar_type() == at::kFloat ? constant.to(type) : constant;
}

}  // namespace

class Runtime::Plan {
 public:
  Plan(const TrainedNetwork& network, RunPrecision precision)
      : graph_(folded(network)),
        preparation_(network.preparation),
        quantization_(network.quantization),
        type_(precision == RunPrecision::bf16 ? at::kBFloat16 : at::kFloat),
        affine_(quantization_.activations) {
    const auto operations = fused_operations(graph_, quantization_);
    find_last_reads(operations);
    for (size_t i = 0; i < operations.size(); ++i) steps_.push_back(step_of(operations, i));
    if (affine_.contains(graph_.input))
      pixel_codes_ = pixel_codes(preparation_.normalization, affine_.at(graph_.input),
                                 quantization_.activation_bits);
    most_images_ = most_images(operations);
  }

  at::Tensor run(const at::Tensor& images) const {
    if (images.size(0) == 0) return at::empty({0, graph_.values[graph_.output].shape[1]});
    const auto pieces = cut(images);
    std::vector<at::Tensor> logits(pieces.size());
    const auto pass_some = [&](int64_t begin, int64_t end) {
      const c10::InferenceMode inference;
      for (int64_t i = begin; i < end; ++i) logits[i] = pass(pieces[i]);
    };
    if (at::in_parallel_region() || std::ssize(pieces) >= at::get_num_threads())
      at::parallel_for(0, std::ssize(pieces), 1, [&](int64_t begin, int64_t end) {
        const OneThreadHere one_thread;
        pass_some(begin, end);
      });
    else
      pass_some(0, std::ssize(pieces));
    return logits.size() == 1 ? logits[0] : at::cat(logits);
  }

  const Preparation& preparation() const { return preparation_; }

 private:
  using Operation = Graph::Operation;
  using Step = std::function<void(PassValues&)>;

  /// Pieces of at most most_images_ images, whose sizes differ by at most one. With two or more
  /// images per thread, all threads get the same number of pieces.
  std::vector<at::Tensor> cut(const at::Tensor& images) const {
    const int64_t all = images.size(0), threads = at::get_num_threads();
    int64_t count = (all + most_images_ - 1) / most_images_;
    if (all >= 2 * threads) count = std::min((count + threads - 1) / threads * threads, all);
    std::vector<at::Tensor> pieces;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = i * all / count;
      pieces.push_back(images.narrow(0, begin, (i + 1) * all / count - begin));
    }
    return pieces;
  }

  /// The most images of a pass: the output of an operation must still be in the caches when the
  /// next one reads it. With Winograd's algorithm on codes the limit is higher, because more images
  /// share each reading of a layer's weights.
  int64_t most_images(const std::vector<FusedOperation>& operations) const {
    const bool by_winograd = int8_instructions() == Int8Instructions::avx512_vnni;
    const int64_t for_codes = by_winograd ? 7 << 19 : 2 << 20;
    const int64_t for_numbers = (quantization_.empty() ? 16 : 8) << 20;
    int64_t most = std::numeric_limits<int32_t>::max();
    for (const auto& fused : operations) {
      const auto& shape = graph_.values[fused.output].shape;
      const int64_t size = c10::multiply_integers(shape) / shape[0];
      const bool codes = affine_.contains(fused.output);
      const int64_t fits =
          codes ? for_codes : for_numbers / static_cast<int64_t>(elementSize(type_));
      most = std::min(most, fits / size);
    }
    return std::max<int64_t>(most, 1);
  }

  at::Tensor pass(const at::Tensor& images) const {
    PassValues values(graph_.values.size(), affine_, quantization_.activation_bits);
    set_input(values, images);
    for (size_t i = 0; i < steps_.size(); ++i) {
      steps_[i](values);
      for (const size_t value : last_reads_[i]) values.drop(value);
    }
    const auto& output = graph_.values[graph_.output];
    if (output.constant.defined())
      return output.constant.to(at::kFloat).expand({images.size(0), output.shape[1]});
    return values.numbers(graph_.output).to(at::kFloat);
  }

  /// The values that the operation reads, without constants.
  std::vector<size_t> reads_of(const FusedOperation& fused) const {
    std::vector<size_t> reads;
    for (const auto& input : graph_.operations[fused.operation].inputs)
      if (input && !graph_.values[*input].constant.defined()) reads.push_back(*input);
    if (fused.addend) reads.push_back(*fused.addend);
    return reads;
  }

  void find_last_reads(const std::vector<FusedOperation>& operations) {
    std::map<size_t, size_t> last;
    for (size_t i = 0; i < operations.size(); ++i)
      for (const size_t value : reads_of(operations[i])) last[value] = i;
    last_reads_.resize(operations.size());
    for (const auto& [value, i] : last)
      if (value != graph_.output) last_reads_[i].push_back(value);
  }

  Step step_of(const std::vector<FusedOperation>& operations, size_t index) {
    const auto& fused = operations[index];
    const auto& operation = graph_.operations[fused.operation];
    if (has_constant_weights(graph_, operation)) return layer_step(fused, index);
    if (stays_codes(operation)) return code_step(operation);
    if (is_mean(operation)) return mean_step(operation);
    if (is_largest(operation)) return largest_step(operation);
    if (is_linear_of_pixels(operation)) return pixels_step(operation);
    return plain_step(operation);
  }

  Step layer_step(const FusedOperation& fused, size_t index) {
    const auto& operation = graph_.operations[fused.operation];
    const size_t input = *operation.inputs[0];
    LayerParts parts{.weight = graph_.constant(operation, 1),
                     .bias = graph_.constant(operation, 2),
                     .convolution = std::get_if<Conv2dOptions>(&operation.options),
                     .input_shape = graph_.values[input].shape,
                     .activation = fused.activation};
    const bool overwrite = fused.addend && may_overwrite(*fused.addend, input, index);
    const bool by_codes = quantization_.covers(operation);
    const bool to_codes = by_codes && affine_.contains(fused.output);
    if (!by_codes)
      parts.weight = in_type(parts.weight, type_), parts.bias = in_type(parts.bias, type_);
    const std::shared_ptr layer = by_codes ? packed(parts, codes_of_layer(fused)) : packed(parts);
    return [=](PassValues& values) {
      const auto read = [&](size_t value) {
        return by_codes ? values.codes(value) : values.numbers(value);
      };
      const auto addend = fused.addend ? read(*fused.addend) : at::Tensor();
      auto output = layer->run(read(input), addend, overwrite);
      if (to_codes)
        values.set_codes(fused.output, std::move(output));
      else
        values.set_numbers(fused.output, std::move(output));
    };
  }

  LayerCodes codes_of_layer(const FusedOperation& fused) const {
    const auto& operation = graph_.operations[fused.operation];
    const auto input = affine_.find(*operation.inputs[0]);
    const auto output = affine_.find(fused.output);
    if (input == affine_.end())
      throw UserError("the quantized network's layer " + operation.layer +
                      " has a weight of codes, but its input has none");
    LayerCodes codes{.weight_scale = quantization_.weight_scales.at(*operation.inputs[1]),
                     .input = input->second,
                     .output = {},
                     .activation_bits = quantization_.activation_bits};
    if (fused.addend) codes.addend = affine_.at(*fused.addend);
    if (output != affine_.end()) codes.output = output->second;
    return codes;
  }

  /// Whether the step may overwrite the addend: nothing reads it later, and no other value shares
  /// its memory.
  bool may_overwrite(size_t addend, size_t input, size_t step) const {
    const auto& last = last_reads_[step];
    const auto producer = graph_.values[addend].producer;
    if (addend == input || !producer || std::ranges::find(last, addend) == last.end() ||
        is_view(graph_.operations[*producer].kind))
      return false;
    return std::ranges::none_of(graph_.readers(addend), [&](size_t reader) {
      return is_view(graph_.operations[reader].kind);
    });
  }

  /// Whether the operation can compute on codes, with the same scale and zero point on both sides.
  bool stays_codes(const Operation& operation) {
    const auto* const pool = std::get_if<Pool2dOptions>(&operation.options);
    if (operation.kind != OperationKind::relu && operation.kind != OperationKind::flatten &&
        (operation.kind != OperationKind::max_pool2d || pool->ceil_mode))
      return false;
    const size_t input = *operation.inputs[0];
    const auto codes = affine_.find(input);
    return codes != affine_.end() &&
           affine_.try_emplace(operation.output, codes->second).first->second == codes->second;
  }

  Step code_step(const Operation& operation) {
    const size_t input = *operation.inputs[0], output = operation.output;
    const int64_t zero = affine_.at(input).zero_point;
    if (operation.kind == OperationKind::relu)
      return [=](PassValues& values) {
        values.set_codes(output, at::clamp_min(values.codes(input), zero));
      };
    if (operation.kind == OperationKind::flatten)
      return [=](PassValues& values) { values.set_codes(output, values.codes(input).flatten(1)); };
    return [=, options = std::get<Pool2dOptions>(operation.options)](PassValues& values) {
      values.set_codes(output, largest_of_windows(values.codes(input), options));
    };
  }

  /// Whether the operation is the mean of all pixels, of codes or of float32.
  bool is_mean(const Operation& operation) const {
    const auto* const pool = std::get_if<AdaptivePool2dOptions>(&operation.options);
    const bool of_all = operation.kind == OperationKind::mean ||
                        (pool && pool->size == std::array<int64_t, 2>{1, 1});
    return of_all && (affine_.contains(*operation.inputs[0]) || type_ == at::kFloat);
  }

  Step mean_step(const Operation& operation) const {
    const size_t input = *operation.inputs[0], output = operation.output;
    const bool flat = operation.kind == OperationKind::mean;
    const auto found = affine_.find(input);
    return [=, affine = found == affine_.end() ? Affine{} : found->second](PassValues& values) {
      auto means = mean_of_pixels(values.codes(input), affine);
      values.set_numbers(output, flat ? means : means.unsqueeze(2).unsqueeze(3));
    };
  }

  bool is_largest(const Operation& operation) const {
    return operation.kind == OperationKind::max_pool2d && type_ == at::kFloat &&
           !std::get<Pool2dOptions>(operation.options).ceil_mode;
  }

  static Step largest_step(const Operation& operation) {
    return [input = *operation.inputs[0], output = operation.output,
            options = std::get<Pool2dOptions>(operation.options)](PassValues& values) {
      values.set_numbers(output, largest_of_windows(values.numbers(input), options));
    };
  }

  Step plain_step(const Operation& operation) const {
    std::vector<at::Tensor> constants;
    for (size_t i = 0; i < operation.inputs.size(); ++i)
      constants.push_back(is_norm(operation.kind) ? graph_.constant(operation, i)
                                                  : in_type(graph_.constant(operation, i), type_));
    const bool sums = operation.kind == OperationKind::group_norm;
    return [operation, constants, sums](PassValues& values) {
      auto inputs = constants;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (operation.inputs[i] && !inputs[i].defined())
          inputs[i] = values.numbers(*operation.inputs[i]);
      values.set_numbers(operation.output,
                         sums ? image_by_image(operation, inputs) : compute(operation, inputs));
    };
  }

  /// Computes each image on one thread, because the last bits of LibTorch's sums depend on the
  /// number of threads.
  static at::Tensor image_by_image(const Operation& operation,
                                   const std::vector<at::Tensor>& inputs) {
    const int64_t count = inputs[0].size(0);
    std::vector<at::Tensor> outputs(static_cast<size_t>(count));
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      const c10::InferenceMode inference;
      const OneThreadHere one_thread;
      auto of_image = inputs;
      for (int64_t i = begin; i < end; ++i) {
        of_image[0] = inputs[0].narrow(0, i, 1);
        outputs[static_cast<size_t>(i)] = compute(operation, of_image);
      }
    });
    return count == 1 ? outputs[0] : at::cat(outputs);
  }

  /// Whether the operation is a linear layer of the features of pixels, [N, H, W, features], in a
  /// quantized network: a later layer may round its results to codes.
  bool is_linear_of_pixels(const Operation& operation) const {
    return operation.kind == OperationKind::linear && !quantization_.empty() &&
           graph_.values[*operation.inputs[0]].shape.size() > 2 &&
           graph_.constant(operation, 1).defined() &&
           (operation.inputs.size() < 3 || !operation.inputs[2] ||
            graph_.constant(operation, 2).defined());
  }

  /// Some rows of one image at a time, each time on one thread: the last bits of products depend on
  /// the number of rows and of threads.
  Step pixels_step(const Operation& operation) const {
    constexpr int64_t most_rows = 64;
    const auto weight = in_type(graph_.constant(operation, 1), type_);
    const int64_t features = weight.size(1), outputs = weight.size(0);
    const std::shared_ptr layer = packed({.weight = weight,
                                          .bias = in_type(graph_.constant(operation, 2), type_),
                                          .convolution = nullptr,
                                          .input_shape = {most_rows, features}});
    return [=, from = *operation.inputs[0], to = operation.output](PassValues& values) {
      const auto input = values.numbers(from).contiguous();
      auto shape = input.sizes().vec();
      shape.back() = outputs;
      const auto result = at::empty(shape, input.options());
      const auto images = input.flatten(1, -2), results = result.flatten(1, -2);
      const int64_t blocks = at::divup(images.size(1), most_rows);
      at::parallel_for(0, images.size(0) * blocks, 1, [&](int64_t begin, int64_t end) {
        const c10::InferenceMode inference;
        const OneThreadHere one_thread;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * most_rows;
          const int64_t count = std::min(most_rows, images.size(1) - first);
          const auto rows = images[i / blocks].narrow(0, first, count);
          results[i / blocks].narrow(0, first, count).copy_(layer->run(rows, {}, false));
        }
      });
      values.set_numbers(to, result);
    };
  }

  void set_input(PassValues& values, const at::Tensor& images) const {
    if (images.scalar_type() == at::kByte && pixel_codes_.defined())
      values.set_codes(graph_.input, looked_up(images, pixel_codes_));
    else if (images.scalar_type() == at::kByte)
      values.set_numbers(
          graph_.input,
          normalize(images, preparation_.normalization, at::MemoryFormat::ChannelsLast).to(type_));
    else
      values.set_numbers(graph_.input, images.to(type_).contiguous(at::MemoryFormat::ChannelsLast));
  }

  Graph graph_;
  Preparation preparation_;
  Quantization quantization_;
  at::ScalarType type_;              ///< type of numbers
  std::map<size_t, Affine> affine_;  ///< quantization_.activations, and outputs that keep codes
  std::vector<Step> steps_;
  std::vector<std::vector<size_t>> last_reads_;  ///< by step: values that no later step reads
  int64_t most_images_;
  at::Tensor pixel_codes_;  ///< pixel_codes(); undefined where the input has no codes
};

Runtime::Runtime(const TrainedNetwork& network, RunPrecision precision) {
  check_precision(network, precision);
  if (!network.quantization.empty() &&
      network.quantization.activation_bits > activation_bits_here())
    log::warn(
        "this processor's sums of 8-bit products overflow: results differ from those elsewhere; "
        "quantize with --activation_bits 7");
  const c10::InferenceMode inference;
  plan_ = std::make_unique<const Plan>(network, precision);
}

Runtime::~Runtime() = default;
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;

at::Tensor Runtime::logits(const at::Tensor& images) const {
  const auto& [channels, resize, size, normalization] = plan_->preparation();
  const bool bytes = images.scalar_type() == at::kByte;
  const auto expected = bytes ? std::vector{size.height, size.width, channels}
                              : std::vector{channels, size.height, size.width};
  if ((!bytes && images.scalar_type() != at::kFloat) || !images.is_cpu() || images.dim() != 4 ||
      images.sizes().slice(1) != at::IntArrayRef(expected))
    throw UserError("the network takes " + std::to_string(size.height) + " x " +
                    std::to_string(size.width) + " images of " + std::to_string(channels) +
                    " channels, as bytes [N, H, W, C] or normalised float32 [N, C, H, W]; not " +
                    std::string(at::toString(images.scalar_type())) + " " +
                    c10::str(images.sizes()));
  const c10::InferenceMode inference;
  return plan_->run(images);
}

}  // namespace composer
