// Batch normalisation with a residual and an activation, NHWC: the passes of forward and backward.
// The residual may have a norm of its own; a max pool may follow the activation.
// Images are [rows, channels], a row a pixel; channels are a multiple of norm_width. Statistics are
// float32: of a thread's own rows around the first of them, and merged by count, mean and sum of
// squares (Chan et al. 1983), always in the same order.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/grid.h"
#include "cuda/norm_launch.h"
#include "cuda/norm_pool.h"

namespace composer::cuda {

/// Channels per thread.
inline constexpr int norm_width = values_at_once;

/// Rows of the statistics [4, channels]: a value before residual and activation is
/// input * scale + shift.
enum NormStatistic { norm_mean, norm_inverse, norm_scale, norm_shift, norm_statistics };

/// How the rows are divided: lane y of block b has row b * lanes + y and every (blocks * lanes)-th
/// row from there.
struct NormShape {
  int64_t rows = 0;
  int channels = 0;
  int blocks = 1, lanes = 1;

  COMPOSER_ANYWHERE int64_t step() const { return static_cast<int64_t>(blocks) * lanes; }
  COMPOSER_ANYWHERE int64_t rows_of_block(int block) const {
    const int64_t rounds = rows / step(), before = static_cast<int64_t>(block) * lanes;
    const int64_t rest = rows - rounds * step() - before;
    return rounds * lanes + (rest < 0 ? 0 : rest < lanes ? rest : lanes);
  }
  /// Rows of the lanes `lane`, lane + every, lane + 2 * every, ... of a block. `every` divides the
  /// number of lanes.
  COMPOSER_ANYWHERE int64_t rows_of_lanes(int block, int lane, int every) const {
    const int64_t rounds = rows / step(), before = static_cast<int64_t>(block) * lanes + lane;
    const int64_t rest = rows - rounds * step() - before, count = lanes / every;
    const int64_t more = rest <= 0 ? 0 : (rest + every - 1) / every;
    return rounds * count + (more < count ? more : count);
  }
};

/// The activation's derivative at its input `value`.
COMPOSER_ANYWHERE float gelu_slope(float value) {
  constexpr float root_half = 0.70710678f, inverse_root_two_pi = 0.39894228f;
  return 0.5f * (1 + erff(value * root_half)) +
         value * inverse_root_two_pi * expf(-0.5f * value * value);
}

template <NormFollows follows>
COMPOSER_ANYWHERE float followed(float value) {
  constexpr float root_half = 0.70710678f;
  if constexpr (follows == NormFollows::relu) return value < 0 ? 0 : value;  // nan stays
  if constexpr (follows == NormFollows::gelu) return 0.5f * value * (1 + erff(value * root_half));
  return value;
}

/// A thread's first channel, its first row and the stride to its next rows.
struct NormLane {
  int channel;
  int64_t first, step;

  COMPOSER_ANYWHERE NormLane(const NormShape& shape, const Place& place)
      : channel((place.block_x * place.lanes_x + place.lane_x) * norm_width),
        first(static_cast<int64_t>(place.block_y) * place.lanes_y + place.lane_y),
        step(shape.step()) {
    if (channel >= shape.channels) first = shape.rows;  // such a thread has no rows
  }
};

/// The statistics of a thread's channels.
struct NormOfLane {
  float mean[norm_width], scale[norm_width], shift[norm_width];

  COMPOSER_ANYWHERE NormOfLane(const NormShape& shape, const NormLane& lane,
                               const float* statistics) {
    for (int i = 0; i < norm_width; ++i) {
      mean[i] = statistics[norm_mean * shape.channels + lane.channel + i];
      scale[i] = statistics[norm_scale * shape.channels + lane.channel + i];
      shift[i] = statistics[norm_shift * shape.channels + lane.channel + i];
    }
  }
  COMPOSER_ANYWHERE float operator()(float value, int i) const {
    return value * scale[i] + shift[i];
  }
};

/// Count, mean and sum of squared differences from the mean.
struct NormMoments {
  float count = 0, mean = 0, squares = 0;

  COMPOSER_ANYWHERE void merge(const NormMoments& other) {
    if (other.count == 0) return;
    const float all = count + other.count, delta = other.mean - mean;
    mean += delta * (other.count / all);
    squares += other.squares + delta * delta * (count * (other.count / all));
    count = all;
  }
};

/// Phases of a tree reduction over the lanes of a block, after the phase in which each lane writes
/// its own value: in phase p each lane below lanes >> p adds the value of the lane at that distance
/// above it. Enough for 256 lanes; the number of lanes is a power of two.
inline constexpr int tree_phases = 8;

/// The distance to the lane whose value is added; 0 if the reduction is done or the lane adds
/// nothing.
COMPOSER_ANYWHERE int tree_distance(const Place& place, int phase) {
  const int distance = place.lanes_y >> phase;
  return place.lane_y < distance ? distance : 0;
}

/// Partial results of this many blocks are loaded before they are added up.
inline constexpr int blocks_at_once = 4;

/// Shared memory as numbers[kind][channel of the thread][lane_y][lane_x]: neighbouring threads use
/// different banks.
class NormShared {
 public:
  COMPOSER_ANYWHERE NormShared(void* memory, const Place& place)
      : numbers_(static_cast<float*>(memory)), place_(place) {}
  COMPOSER_ANYWHERE float& at(int kind, int lane_y, int i) {
    const int row = (kind * norm_width + i) * place_.lanes_y + lane_y;
    return numbers_[row * place_.lanes_x + place_.lane_x];
  }
  static size_t bytes(const Grid& grid, int kinds) {
    return sizeof(float) * static_cast<size_t>(kinds * grid.lanes_y * grid.lanes_x * norm_width);
  }

 private:
  float* numbers_;
  const Place& place_;
};

/// Each block's mean and sum of squares of its rows: partial [blocks, 2, channels].
template <class T>
struct NormMomentsKernel {
  static constexpr int phases = 1 + tree_phases;
  NormShape shape;
  const T* input;
  float* partial;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const NormLane lane(shape, place);
    NormShared shared(memory, place);
    if (phase == 0) {
      NormMoments moments[norm_width];
      of_lane(lane, moments);
      for (int i = 0; i < norm_width; ++i) {
        shared.at(0, place.lane_y, i) = moments[i].mean;
        shared.at(1, place.lane_y, i) = moments[i].squares;
      }
      return;
    }
    const int y = place.lane_y, distance = tree_distance(place, phase);
    if (distance == 0 || lane.channel >= shape.channels) return;
    const auto count = [&](int of) {
      return static_cast<float>(shape.rows_of_lanes(place.block_y, of, 2 * distance));
    };
    const float own = count(y), others = count(y + distance);
    float* const to =
        partial + static_cast<int64_t>(place.block_y) * 2 * shape.channels + lane.channel;
    for (int i = 0; i < norm_width; ++i) {
      NormMoments all{own, shared.at(0, y, i), shared.at(1, y, i)};
      all.merge({others, shared.at(0, y + distance, i), shared.at(1, y + distance, i)});
      shared.at(0, y, i) = all.mean;
      shared.at(1, y, i) = all.squares;
      if (distance > 1) continue;
      to[i] = all.mean;
      to[shape.channels + i] = all.squares;
    }
  }

 private:
  COMPOSER_ANYWHERE void of_lane(const NormLane& lane, NormMoments* moments) const {
    if (lane.first >= shape.rows) return;
    float origin[norm_width], sum[norm_width] = {}, squares[norm_width] = {};
    const auto head = load_values(input + lane.first * shape.channels + lane.channel);
    for (int i = 0; i < norm_width; ++i) origin[i] = static_cast<float>(head.values[i]);
    int64_t count = 0;
    for (int64_t row = lane.first; row < shape.rows; row += lane.step, ++count) {
      const auto values = load_values(input + row * shape.channels + lane.channel);
      for (int i = 0; i < norm_width; ++i) {
        const float difference = static_cast<float>(values.values[i]) - origin[i];
        sum[i] += difference;
        squares[i] += difference * difference;
      }
    }
    for (int i = 0; i < norm_width; ++i) {
      const float shift = sum[i] / static_cast<float>(count);
      moments[i].count = static_cast<float>(count);
      moments[i].mean = origin[i] + shift;
      moments[i].squares = fmaxf(squares[i] - sum[i] * shift, 0.f);
    }
  }
};

/// Statistics from the partial results of NormMomentsKernel; updates the running statistics. The x
/// lanes have a channel each, the y lanes a share of the blocks. If `partial` is null, the
/// statistics are the running ones.
struct NormStatisticsKernel {
  static constexpr int phases = 1 + tree_phases;
  NormShape shape;
  const float* partial;
  NormParameters norm;
  float* statistics;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const int channel = place.block_x * place.lanes_x + place.lane_x;
    float* const shared = static_cast<float*>(memory);  // [3][lanes_y][lanes_x]
    const auto at = [&](int kind, int y) -> float& {
      return shared[(kind * place.lanes_y + y) * place.lanes_x + place.lane_x];
    };
    if (channel >= shape.channels) return;
    if (partial == nullptr) {
      if (phase == 0 && place.lane_y == 0) finish(channel, {});
      return;
    }
    const int y = place.lane_y, distance = phase == 0 ? 0 : tree_distance(place, phase);
    if (phase > 0 && distance == 0) return;
    auto all = phase == 0 ? of_blocks(place, channel) : NormMoments{at(0, y), at(1, y), at(2, y)};
    if (phase > 0) all.merge({at(0, y + distance), at(1, y + distance), at(2, y + distance)});
    at(0, y) = all.count;
    at(1, y) = all.mean;
    at(2, y) = all.squares;
    if (distance == 1) finish(channel, all);
  }

 private:
  /// Of every lanes_y-th block.
  COMPOSER_ANYWHERE NormMoments of_blocks(const Place& place, int channel) const {
    NormMoments all;
    for (int first = place.lane_y; first < shape.blocks; first += blocks_at_once * place.lanes_y) {
      NormMoments some[blocks_at_once];
      for (int i = 0; i < blocks_at_once; ++i) {
        const int block = first + i * place.lanes_y;
        if (block < shape.blocks) some[i] = of_block(block, channel);
      }
      for (const auto& one : some) all.merge(one);
    }
    return all;
  }

  COMPOSER_ANYWHERE NormMoments of_block(int block, int channel) const {
    const float* const from = partial + static_cast<int64_t>(block) * 2 * shape.channels + channel;
    return {static_cast<float>(shape.rows_of_block(block)), from[0], from[shape.channels]};
  }

  COMPOSER_ANYWHERE void finish(int channel, const NormMoments& all) const {
    float mean = norm.running_mean[channel], variance = norm.running_var[channel];
    if (partial != nullptr) {
      const float unbiased = all.squares / (all.count - 1);
      norm.running_mean[channel] = norm.momentum * all.mean + (1 - norm.momentum) * mean;
      norm.running_var[channel] = norm.momentum * unbiased + (1 - norm.momentum) * variance;
      mean = all.mean;
      variance = all.squares / all.count;
    }
    const float inverse = 1 / sqrtf(variance + norm.eps);
    const float scale = norm.weight == nullptr ? inverse : norm.weight[channel] * inverse;
    float* const to = statistics + channel;
    to[norm_mean * shape.channels] = mean;
    to[norm_inverse * shape.channels] = inverse;
    to[norm_scale * shape.channels] = scale;
    to[norm_shift * shape.channels] =
        (norm.bias == nullptr ? 0 : norm.bias[channel]) - mean * scale;
  }
};

/// The statistics of the residual's norm, behind those of the input's.
COMPOSER_ANYWHERE const float* of_residual(const NormShape& shape, const float* statistics) {
  return statistics + static_cast<int64_t>(norm_statistics) * shape.channels;
}

/// output = activation(norm of input + residual). residual may be null; with
/// NormWith::residual_norm its norm is added. Writes `marks` [rows, channels / 8] unless it is
/// null: bit i of a byte is 0 where the output of the i-th of eight channels is 0 or less.
template <class T, NormFollows follows, NormWith with>
struct NormApplyKernel {
  static constexpr int phases = 1;
  NormShape shape;
  const T *input, *residual;
  const float* statistics;
  T* output;
  uint8_t* marks;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    constexpr bool two = with == NormWith::residual_norm;
    const NormLane lane(shape, place);
    if (lane.first >= shape.rows) return;
    const NormOfLane norm(shape, lane, statistics);
    const NormOfLane second(shape, lane, two ? of_residual(shape, statistics) : statistics);
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const int64_t place_of_row = row * shape.channels + lane.channel;
      auto values = load_values(input + place_of_row);
      Values<T> rest;
      if (two || residual != nullptr) rest = load_values(residual + place_of_row);
      unsigned passed = 0;
      for (int i = 0; i < norm_width; ++i) {
        float value = norm(static_cast<float>(values.values[i]), i);
        if constexpr (two)
          value += second(static_cast<float>(rest.values[i]), i);
        else if (residual != nullptr)
          value += static_cast<float>(rest.values[i]);
        values.values[i] = static_cast<T>(followed<follows>(value));
        passed |= static_cast<float>(values.values[i]) <= 0 ? 0u : 1u << i;
      }
      store_values(output + place_of_row, values);
      if (marks != nullptr) marks[place_of_row / norm_width] = static_cast<uint8_t>(passed);
    }
  }
};

/// output = max pool of activation(norm of input): of equal values the first in its window, of
/// several NaN the last, as in ATen. `shape` is the output's. Writes `marks` [rows, channels]
/// unless it is null: the number of the value's place in its window.
template <class T, NormFollows follows>
struct NormPoolKernel {
  static constexpr int phases = 1;
  NormShape shape;
  NormPool pool;
  const T* input;
  const float* statistics;
  T* output;
  uint8_t* marks;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    const NormLane lane(shape, place);
    if (lane.first >= shape.rows) return;
    const NormOfLane norm(shape, lane, statistics);
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      float best[norm_width];
      Values<uint8_t> where;
      of_window(norm, pool.output(row), lane.channel, best, where);
      Values<T> values;
      for (int i = 0; i < norm_width; ++i) values.values[i] = static_cast<T>(best[i]);
      const int64_t place_of_row = row * shape.channels + lane.channel;
      store_values(output + place_of_row, values);
      if (marks != nullptr) store_values(marks + place_of_row, where);
    }
  }

 private:
  COMPOSER_ANYWHERE void of_window(const NormOfLane& norm, const NormPixel& to, int channel,
                                   float* best, Values<uint8_t>& where) const {
    bool first = true;
    for (int y = 0; y < pool.kernel[0]; ++y)
      for (int x = 0; x < pool.kernel[1]; ++x) {
        const NormPixel from{to.image, to.y * pool.stride[0] - pool.padding[0] + y,
                             to.x * pool.stride[1] - pool.padding[1] + x};
        if (!pool.is_inside(from)) continue;
        const auto values = load_values(input + pool.input_row(from) * shape.channels + channel);
        for (int i = 0; i < norm_width; ++i) {
          const float value = norm(static_cast<float>(values.values[i]), i);
          // Rounded as if it were stored: rounding makes equal values.
          const float stored = static_cast<float>(static_cast<T>(followed<follows>(value)));
          if (!first && !(stored > best[i]) && stored == stored) continue;
          best[i] = stored;
          where.values[i] = static_cast<uint8_t>(y * pool.kernel[1] + x);
        }
        first = false;
      }
  }
};

/// The tensors from which a backward pass computes the activation's derivative.
template <class T, NormWith with>
struct NormSlopes {
  const T* gradient;     ///< gradient of the output
  const T* added;        ///< a further gradient of the output, or null; not with a pool
  const T* input;        ///< null if it is not needed
  const T* residual;     ///< null without gelu and without a norm of its own
  const T* output;       ///< null without relu and a residual, and where there are marks
  const uint8_t* marks;  ///< of NormApplyKernel or null; with a pool, of NormPoolKernel
  const float* statistics;
  NormPool pool;
  int channels;

  /// The tensors' values of a thread's channels in one row.
  struct Loaded {
    float gathered[norm_width];
    Values<T> gradient, added, input, residual, output;
    unsigned passed;
  };

  COMPOSER_ANYWHERE Loaded load(int64_t row, int channel) const {
    const int64_t place = row * channels + channel;
    Loaded loaded;
    if constexpr (with == NormWith::pool) {
      gather(row, channel, loaded.gathered);
      if (input != nullptr) loaded.input = load_values(input + place);
      return loaded;
    }
    loaded.gradient = load_values(gradient + place);
    if (added != nullptr) loaded.added = load_values(added + place);
    if (marks != nullptr) loaded.passed = marks[place / norm_width];
    if (input != nullptr) loaded.input = load_values(input + place);
    if (residual != nullptr) loaded.residual = load_values(residual + place);
    if (output != nullptr) loaded.output = load_values(output + place);
    return loaded;
  }

  COMPOSER_ANYWHERE float input_of(const Loaded& at, int i) const {
    return input != nullptr ? static_cast<float>(at.input.values[i]) : 0.f;
  }

  /// The gradient before the activation.
  template <NormFollows follows>
  COMPOSER_ANYWHERE float before(const Loaded& at, int i, const NormOfLane& norm) const {
    const float from_above = of_output(at, i);
    if constexpr (follows == NormFollows::nothing) return from_above;
    if (follows == NormFollows::relu && with != NormWith::pool && marks != nullptr)
      return (at.passed >> i & 1) != 0 ? from_above : 0.f;
    if constexpr (follows == NormFollows::gelu) {
      float value = norm(input_of(at, i), i);
      if (residual != nullptr) value += static_cast<float>(at.residual.values[i]);
      return from_above * gelu_slope(value);
    }
    T value = T(0);
    if (output != nullptr)
      value = at.output.values[i];
    else if constexpr (with != NormWith::residual_norm)
      value = static_cast<T>(norm(input_of(at, i), i));  // as the forward pass stored it
    return static_cast<float>(value) <= 0 ? 0.f : from_above;
  }

 private:
  COMPOSER_ANYWHERE float of_output(const Loaded& at, int i) const {
    if constexpr (with == NormWith::pool) return at.gathered[i];
    const float own = static_cast<float>(at.gradient.values[i]);
    return added == nullptr ? own : own + static_cast<float>(at.added.values[i]);
  }

  /// The sum of the gradients of the windows that chose the pixel of row `row`.
  COMPOSER_ANYWHERE void gather(int64_t row, int channel, float* sums) const {
    for (int i = 0; i < norm_width; ++i) sums[i] = 0;
    const NormPixel from = pool.input(row);
    const NormRange down = pool.windows(0, from.y), across = pool.windows(1, from.x);
    for (int y = down.first; y <= down.last; ++y)
      for (int x = across.first; x <= across.last; ++x) {
        const int64_t place = pool.output_row({from.image, y, x}) * channels + channel;
        const int number = (from.y + pool.padding[0] - y * pool.stride[0]) * pool.kernel[1] +
                           from.x + pool.padding[1] - x * pool.stride[1];
        const auto where = load_values(marks + place);
        const auto gradients = load_values(gradient + place);
        for (int i = 0; i < norm_width; ++i)
          if (where.values[i] == number) sums[i] += static_cast<float>(gradients.values[i]);
      }
  }
};

/// The sums of a backward pass by channel: of g, of g * (input - mean) and, with a norm of the
/// residual, of g * (residual - its mean).
template <NormWith with>
inline constexpr int norm_sums = with == NormWith::residual_norm ? 3 : 2;

/// Each block's sums, where g is the gradient before the activation: `partial` [blocks,
/// norm_sums<with>, channels]. Writes g to `before` unless `before` is null.
template <class T, NormFollows follows, NormWith with>
struct NormSumsKernel {
  static constexpr int phases = 1 + tree_phases, kinds = norm_sums<with>;
  NormShape shape;
  NormSlopes<T, with> slopes;
  T* before;
  float* partial;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const NormLane lane(shape, place);
    NormShared shared(memory, place);
    const int y = place.lane_y;
    if (phase == 0) {
      float sums[kinds][norm_width] = {};
      of_lane(lane, sums);
      for (int kind = 0; kind < kinds; ++kind)
        for (int i = 0; i < norm_width; ++i) shared.at(kind, y, i) = sums[kind][i];
      return;
    }
    const int distance = tree_distance(place, phase);
    if (distance == 0 || lane.channel >= shape.channels) return;
    float* const to =
        partial + static_cast<int64_t>(place.block_y) * kinds * shape.channels + lane.channel;
    for (int kind = 0; kind < kinds; ++kind)
      for (int i = 0; i < norm_width; ++i) {
        const float sum = shared.at(kind, y, i) + shared.at(kind, y + distance, i);
        shared.at(kind, y, i) = sum;
        if (distance == 1) to[kind * shape.channels + i] = sum;
      }
  }

 private:
  COMPOSER_ANYWHERE void of_lane(const NormLane& lane, float (&sums)[kinds][norm_width]) const {
    if (lane.first >= shape.rows) return;
    const NormOfLane norm(shape, lane, slopes.statistics);
    const NormOfLane second(shape, lane,
                            kinds == 3 ? of_residual(shape, slopes.statistics) : slopes.statistics);
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const auto loaded = slopes.load(row, lane.channel);
      Values<T> rounded;
      for (int i = 0; i < norm_width; ++i) {
        const float gradient = slopes.template before<follows>(loaded, i, norm);
        rounded.values[i] = static_cast<T>(gradient);
        sums[0][i] += gradient;
        sums[1][i] += gradient * (slopes.input_of(loaded, i) - norm.mean[i]);
        if constexpr (kinds == 3)
          sums[2][i] += gradient * (static_cast<float>(loaded.residual.values[i]) - second.mean[i]);
      }
      if (before != nullptr) store_values(before + row * shape.channels + lane.channel, rounded);
    }
  }
};

/// Gradients of weight and bias from the partial results of NormSumsKernel, and the line of
/// NormGradientKernel: the input's gradient is scale * g + slope * (input - mean) + offset, with
/// slope and offset in the rows of `line` [2, channels]. Lanes as in NormStatisticsKernel. `weight`
/// and `bias` may be null. `partial` [blocks, kinds, channels]: `product` is the kind of the sum of
/// products.
struct NormLineKernel {
  static constexpr int phases = 1 + tree_phases;
  NormShape shape;
  int kinds, product;
  const float *partial, *statistics;
  bool training;
  float *weight, *bias, *line;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const int channel = place.block_x * place.lanes_x + place.lane_x;
    float* const shared = static_cast<float*>(memory);  // [2][lanes_y][lanes_x]
    const auto at = [&](int kind, int y) -> float& {
      return shared[(kind * place.lanes_y + y) * place.lanes_x + place.lane_x];
    };
    if (channel >= shape.channels) return;
    const int y = place.lane_y, distance = phase == 0 ? 0 : tree_distance(place, phase);
    if (phase > 0 && distance == 0) return;
    float sums[2] = {};
    if (phase == 0)
      of_blocks(place, channel, sums);
    else
      for (int kind = 0; kind < 2; ++kind) sums[kind] = at(kind, y) + at(kind, y + distance);
    for (int kind = 0; kind < 2; ++kind) at(kind, y) = sums[kind];
    if (distance == 1) finish(channel, sums);
  }

 private:
  /// Of every lanes_y-th block.
  COMPOSER_ANYWHERE void of_blocks(const Place& place, int channel, float (&sums)[2]) const {
    for (int first = place.lane_y; first < shape.blocks; first += blocks_at_once * place.lanes_y) {
      float some[blocks_at_once][2] = {};
      for (int i = 0; i < blocks_at_once; ++i) {
        const int block = first + i * place.lanes_y;
        const float* const from =
            partial + static_cast<int64_t>(block) * kinds * shape.channels + channel;
        if (block >= shape.blocks) continue;
        some[i][0] = from[0];
        some[i][1] = from[product * shape.channels];
      }
      for (const auto& one : some)
        for (int kind = 0; kind < 2; ++kind) sums[kind] += one[kind];
    }
  }

  COMPOSER_ANYWHERE void finish(int channel, const float (&sums)[2]) const {
    const float inverse = statistics[norm_inverse * shape.channels + channel];
    const float scale = statistics[norm_scale * shape.channels + channel];
    const float along = sums[1] * inverse;  // the sum of g * normalised input
    if (weight != nullptr) weight[channel] = along;
    if (bias != nullptr) bias[channel] = sums[0];
    const float rows = static_cast<float>(shape.rows);
    line[channel] = training ? -scale * inverse * (along / rows) : 0.f;
    line[shape.channels + channel] = training ? -scale * (sums[0] / rows) : 0.f;
  }
};

/// The line of a thread's channels, from NormLineKernel.
struct NormLineOfLane {
  float slope[norm_width], offset[norm_width];

  COMPOSER_ANYWHERE NormLineOfLane(const NormShape& shape, const NormLane& lane,
                                   const float* line) {
    for (int i = 0; i < norm_width; ++i) {
      slope[i] = line[lane.channel + i];
      offset[i] = line[shape.channels + lane.channel + i];
    }
  }
};

/// The input's gradient and, with a norm of the residual, the residual's, whose line stands behind
/// the input's; each is written unless it is null. If NormSumsKernel wrote g, slopes.gradient is g
/// and `follows` is nothing.
template <class T, NormFollows follows, NormWith with>
struct NormGradientKernel {
  static constexpr int phases = 1;
  NormShape shape;
  NormSlopes<T, with> slopes;
  const float* line;
  T *gradient, *residual_gradient;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    constexpr bool two = with == NormWith::residual_norm;
    const NormLane lane(shape, place);
    if (lane.first >= shape.rows) return;
    const NormOfLane norm(shape, lane, slopes.statistics);
    const NormOfLane second(shape, lane,
                            two ? of_residual(shape, slopes.statistics) : slopes.statistics);
    const NormLineOfLane own(shape, lane, line);
    const NormLineOfLane others(shape, lane, two ? line + 2 * shape.channels : line);
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const int64_t place_of_row = row * shape.channels + lane.channel;
      const auto loaded = slopes.load(row, lane.channel);
      Values<T> result, others_result;
      for (int i = 0; i < norm_width; ++i) {
        const float before = slopes.template before<follows>(loaded, i, norm);
        const float along = slopes.input != nullptr
                                ? own.slope[i] * (slopes.input_of(loaded, i) - norm.mean[i])
                                : 0.f;
        result.values[i] = static_cast<T>(norm.scale[i] * before + along + own.offset[i]);
        if constexpr (two) {
          const float value = static_cast<float>(loaded.residual.values[i]) - second.mean[i];
          others_result.values[i] =
              static_cast<T>(second.scale[i] * before + others.slope[i] * value + others.offset[i]);
        }
      }
      if (gradient != nullptr) store_values(gradient + place_of_row, result);
      if (two && residual_gradient != nullptr)
        store_values(residual_gradient + place_of_row, others_result);
    }
  }
};

/// The grid of the kernels over rows.
struct NormGrid {
  NormShape shape;
  Grid grid;  ///< without shared memory
};

/// As many x lanes as the channels need, and about `wanted_blocks` blocks: on an H100 four blocks
/// per multiprocessor were fastest (of 396 to 2112 blocks).
inline NormGrid norm_grid(int64_t rows, int channels, int wanted_blocks = 528) {
  constexpr int threads = 256, most_across = 32;
  const int vectors = channels / norm_width;
  Grid grid;
  while (grid.lanes_x < vectors && grid.lanes_x < most_across) grid.lanes_x *= 2;
  grid.lanes_y = threads / grid.lanes_x;
  grid.blocks_x = (vectors + grid.lanes_x - 1) / grid.lanes_x;
  const int64_t most = (rows + grid.lanes_y - 1) / grid.lanes_y;
  const int64_t wanted = (wanted_blocks + grid.blocks_x - 1) / grid.blocks_x;
  grid.blocks_y = static_cast<int>(wanted < most ? wanted : most);
  return {{rows, channels, grid.blocks_y, grid.lanes_y}, grid};
}

/// The grid of the kernels over partial results. `kinds`: shared numbers per thread.
inline Grid norm_channel_grid(const NormShape& shape, int kinds) {
  constexpr int across = 8, down = 32;  // 8 floats fill a memory transaction
  return {(shape.channels + across - 1) / across, 1, across, down,
          sizeof(float) * static_cast<size_t>(kinds * across * down)};
}

}  // namespace composer::cuda
