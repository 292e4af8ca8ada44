#include "algorithms/parts/pooled_blur.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/simd.h"

namespace composer {
namespace {

// Rows are arrays of n = W * C numbers, the channels of a pixel side by side; a padded row has one
// more pixel at each end. Arithmetic is in float32. A choice is the position of the largest number
// in its window, 3 * row + column.

constexpr float lowest = -std::numeric_limits<float>::infinity();

void widen(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }

COMPOSER_CLONES_AVX512 void widen(const at::BFloat16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i].x) << 16);
}

COMPOSER_CLONES_AVX512 void widen(const uint8_t* from, int32_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

void narrow(const float* from, float* to, int64_t n) { std::copy_n(from, n, to); }

COMPOSER_CLONES_AVX512 void narrow(const float* from, at::BFloat16* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    to[i].x = static_cast<uint16_t>(from[i] != from[i] ? 0x7FC0 : rounded);
  }
}

COMPOSER_CLONES_AVX512 void narrow(const int32_t* from, uint8_t* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i]);
}

/// The largest of a, b and c; of equal numbers the first. NaN counts as largest. which: 0, 1 or 2.
COMPOSER_CLONES_AVX512 void largest(const float* a, const float* b, const float* c, float* value,
                                    int32_t* which, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int32_t take_b = (b[i] > a[i]) | (b[i] != b[i]);
    const float ab = take_b != 0 ? b[i] : a[i];
    const int32_t take_c = (c[i] > ab) | (c[i] != c[i]);
    value[i] = take_c != 0 ? c[i] : ab;
    which[i] = take_c != 0 ? 2 : take_b;
  }
}

/// choice = 3 * row + (columns of that row).
COMPOSER_CLONES_AVX512 void join_choice(int32_t* row, const int32_t* a, const int32_t* b,
                                        const int32_t* c, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    row[i] = row[i] * 3 + (row[i] == 0 ? a[i] : row[i] == 1 ? b[i] : c[i]);
}

COMPOSER_CLONES_AVX512 void blur_three(const float* a, const float* b, const float* c, float* to,
                                       int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0.25f * (a[i] + c[i]) + 0.5f * b[i];
}

/// to += the gradients of the three pixels whose windows contain this pixel and chose it. first:
/// the choice of the window row's first column. gradient and choice are padded rows.
COMPOSER_CLONES_AVX512 void add_chosen(const float* gradient, const int32_t* choice, int32_t first,
                                       int64_t channels, float* to, int64_t n) {
  const float *g1 = gradient + channels, *g2 = g1 + channels;
  const int32_t *c1 = choice + channels, *c2 = c1 + channels;
  for (int64_t i = 0; i < n; ++i) {
    const float from_right = c2[i] == first ? g2[i] : 0.f, here = c1[i] == first + 1 ? g1[i] : 0.f;
    to[i] += from_right + here + (choice[i] == first + 2 ? gradient[i] : 0.f);
  }
}

/// The last three rows of a sweep down an image by row number, and a constant row for rows outside
/// the image.
template <class T>
class Rows {
 public:
  Rows(int64_t n, T outside) : n_(n), rows_(3 * n, outside), outside_(n, outside) {}

  T* operator[](int64_t row) { return rows_.data() + (row % 3) * n_; }
  const T* within(int64_t row, int64_t height) {
    return row >= 0 && row < height ? (*this)[row] : outside();
  }
  const T* outside() const { return outside_.data(); }

 private:
  int64_t n_;
  std::vector<T> rows_, outside_;
};

struct Shape {
  int64_t height, width, channels, stride;

  int64_t out_height() const { return (height + stride - 1) / stride; }
  int64_t out_width() const { return (width + stride - 1) / stride; }
  int64_t row() const { return width * channels; }
  int64_t padded_row() const { return row() + 2 * channels; }
  int64_t out_row() const { return out_width() * channels; }
};

/// The forward sweep down an image, from input to output.
template <class T>
class Forward {
 public:
  explicit Forward(const Shape& shape) : s_(shape) {}

  /// Output rows [begin, end) of one image, and the choices of the pooled rows they begin with
  /// (choice may be null).
  void run(const T* input, T* output, uint8_t* choice, int64_t begin, int64_t end) {
    const int64_t first_owned = begin * s_.stride, last = s_.height - 1;
    int64_t next_input = std::max<int64_t>(first_owned - 2, 0);
    int64_t next_pooled = std::max<int64_t>(first_owned - 1, 0);
    for (int64_t out = begin; out < end; ++out) {
      for (; next_pooled <= std::min(out * s_.stride + 1, last); ++next_pooled) {
        for (; next_input <= std::min(next_pooled + 1, last); ++next_input)
          maximum_across(input + next_input * s_.row(), next_input);
        const bool owned =
            choice != nullptr && next_pooled >= first_owned && next_pooled < end * s_.stride;
        maximum_down(next_pooled, owned ? choice + next_pooled * s_.row() : nullptr);
      }
      blur_row(out * s_.stride, output + out * s_.out_row());
    }
  }

 private:
  void maximum_across(const T* input, int64_t row) {
    const int64_t c = s_.channels;
    float* left = padded_.data();
    widen(input, left + c, s_.row());
    largest(left, left + c, left + 2 * c, across_[row], columns_[row], s_.row());
  }

  void maximum_down(int64_t row, uint8_t* choice) {
    const int64_t n = s_.row(), h = s_.height;
    largest(across_.within(row - 1, h), across_.within(row, h), across_.within(row + 1, h),
            pooled_[row], which_.data(), n);
    if (choice == nullptr) return;
    join_choice(which_.data(), columns_.within(row - 1, h), columns_.within(row, h),
                columns_.within(row + 1, h), n);
    narrow(which_.data(), choice, n);
  }

  void blur_row(int64_t centre, T* output) {
    const int64_t c = s_.channels, h = s_.height;
    float* row = blurred_.data() + c;
    blur_three(pooled_.within(centre - 1, h), pooled_.within(centre, h),
               pooled_.within(centre + 1, h), row, s_.row());
    for (int64_t x = 0; x < s_.out_width(); ++x) {
      const float* pixel = row + x * s_.stride * c;
      blur_three(pixel - c, pixel, pixel + c, out_.data() + x * c, c);
    }
    narrow(out_.data(), output, s_.out_row());
  }

  Shape s_;
  std::vector<float> padded_ = std::vector<float>(s_.padded_row(), lowest);
  Rows<float> across_{s_.row(), lowest};
  Rows<int32_t> columns_{s_.row(), 0};
  std::vector<int32_t> which_ = std::vector<int32_t>(s_.row());
  Rows<float> pooled_{s_.row(), 0};
  std::vector<float> blurred_ = std::vector<float>(s_.padded_row(), 0);
  std::vector<float> out_ = std::vector<float>(s_.out_row());
};

/// The backward sweep down an image, from the output's gradient to the input's gradient.
template <class T>
class Backward {
 public:
  explicit Backward(const Shape& shape) : s_(shape) {}

  /// Input rows [begin, end) of one image.
  void run(const T* gradient, const uint8_t* choice, T* result, int64_t begin, int64_t end) {
    int64_t next_out = std::max<int64_t>(begin - 2, 0) / s_.stride,
            next = std::max<int64_t>(begin - 1, 0);
    for (int64_t row = begin; row < end; ++row) {
      for (; next <= std::min(row + 1, s_.height - 1); ++next) {
        for (; next_out <= std::min((next + 1) / s_.stride, s_.out_height() - 1); ++next_out)
          widen(gradient + next_out * s_.out_row(), out_[next_out], s_.out_row());
        spread(next);
        widen(choice + next * s_.row(), choices_[next] + s_.channels, s_.row());
      }
      gather(row, result + row * s_.row());
    }
  }

 private:
  /// The row of `out_` whose blur is centred on pooled row `row`, or zeros.
  const float* out_at(int64_t row) {
    return row >= 0 && row % s_.stride == 0 ? out_.within(row / s_.stride, s_.out_height())
                                            : out_.outside();
  }

  void spread(int64_t row) {
    const int64_t c = s_.channels;
    blur_three(out_at(row - 1), out_at(row), out_at(row + 1), down_.data(), s_.out_row());
    float* to = gradients_[row] + c;
    const auto at = [&](int64_t x) {
      const bool centre = x >= 0 && x < s_.width && x % s_.stride == 0;
      return centre ? down_.data() + x / s_.stride * c : out_.outside();
    };
    for (int64_t x = 0; x < s_.width; ++x) blur_three(at(x - 1), at(x), at(x + 1), to + x * c, c);
  }

  void gather(int64_t row, T* result) {
    std::ranges::fill(sum_, 0.f);
    for (int32_t tap = 0; tap < 3; ++tap)
      if (const int64_t from = row + 1 - tap; from >= 0 && from < s_.height)
        add_chosen(gradients_[from], choices_[from], 3 * tap, s_.channels, sum_.data(), s_.row());
    narrow(sum_.data(), result, s_.row());
  }

  Shape s_;
  Rows<float> out_{s_.out_row(), 0};
  std::vector<float> down_ = std::vector<float>(s_.out_row());
  Rows<float> gradients_{s_.padded_row(), 0};
  Rows<int32_t> choices_{s_.padded_row(), -1};
  std::vector<float> sum_ = std::vector<float>(s_.row());
};

/// Calls sweep(image, begin, end) for all rows of all images in parallel. make: makes the sweep of
/// a thread.
void for_rows(int64_t images, int64_t rows, const auto& make) {
  constexpr int64_t rows_worth_a_thread = 16;
  at::parallel_for(0, images * rows, rows_worth_a_thread, [&](int64_t begin, int64_t end) {
    auto sweep = make();
    while (begin < end) {
      const int64_t image = begin / rows, stop = std::min(end, (image + 1) * rows);
      sweep(image, begin - image * rows, stop - image * rows);
      begin = stop;
    }
  });
}

void in_type_of(const at::Tensor& tensor, const auto& function) {
  if (tensor.scalar_type() == at::kBFloat16)
    function(at::BFloat16{});
  else
    function(float{});
}

struct PooledBlur : torch::autograd::Function<PooledBlur> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            int64_t stride, bool differentiable) {
    const Shape s{input.size(2), input.size(3), input.size(1), stride};
    const int64_t images = input.size(0), size = s.height * s.row(),
                  out_size = s.out_height() * s.out_row();
    const auto output = at::empty({images, s.channels, s.out_height(), s.out_width()},
                                  input.options().memory_format(at::MemoryFormat::ChannelsLast));
    at::Tensor choice;
    if (differentiable) choice = at::empty({images, size}, at::kByte);
    uint8_t* choices = differentiable ? choice.mutable_data_ptr<uint8_t>() : nullptr;
    in_type_of(input, [&]<class T>(T) {
      const T* from = input.const_data_ptr<T>();
      T* to = output.mutable_data_ptr<T>();
      for_rows(images, s.out_height(), [&] {
        return [&, sweep = Forward<T>(s)](int64_t i, int64_t begin, int64_t end) mutable {
          sweep.run(from + i * size, to + i * out_size, choices ? choices + i * size : nullptr,
                    begin, end);
        };
      });
    });
    context->saved_data["choice"] = choice;
    context->saved_data["shape"] = input.sizes().vec();
    context->saved_data["stride"] = stride;
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "pooled_blur has no second derivative");
    const auto shape = context->saved_data["shape"].toIntVector();
    const auto choice = context->saved_data["choice"].toTensor();
    const Shape s{shape[2], shape[3], shape[1], context->saved_data["stride"].toInt()};
    const int64_t size = s.height * s.row(), out_size = s.out_height() * s.out_row();
    const auto gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const auto result =
        at::empty(shape, gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    in_type_of(gradient, [&]<class T>(T) {
      const T* from = gradient.const_data_ptr<T>();
      T* to = result.mutable_data_ptr<T>();
      const uint8_t* choices = choice.const_data_ptr<uint8_t>();
      for_rows(shape[0], s.height, [&] {
        return [&, sweep = Backward<T>(s)](int64_t i, int64_t begin, int64_t end) mutable {
          sweep.run(from + i * out_size, choices + i * size, to + i * size, begin, end);
        };
      });
    });
    return {result, {}, {}};
  }
};

}  // namespace

bool pooled_blur_takes(const at::Tensor& input) {
  return input.is_cpu() && input.dim() == 4 && input.numel() > 0 &&
         (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16) &&
         input.suggest_memory_format() == at::MemoryFormat::ChannelsLast &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor pooled_blur(const at::Tensor& input, int64_t stride) {
  return PooledBlur::apply(input, stride, input.requires_grad() && at::GradMode::is_enabled());
}

}  // namespace composer
