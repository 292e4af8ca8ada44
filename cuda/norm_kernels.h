// Batch normalisation with a residual and an activation, NHWC: the passes of forward and backward.
// Images are [rows, channels], a row a pixel; channels are a multiple of norm_width. Statistics are
// float32: of a thread's own rows around the first of them, and merged by count, mean and sum of
// squares (Chan et al. 1983), always in the same order.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/grid.h"
#include "cuda/norm_launch.h"

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
  const float *partial, *weight, *bias;  ///< weight, bias may be null
  float *running_mean, *running_var;
  float eps, momentum;
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
    float mean = running_mean[channel], variance = running_var[channel];
    if (partial != nullptr) {
      const float unbiased = all.squares / (all.count - 1);
      running_mean[channel] = momentum * all.mean + (1 - momentum) * mean;
      running_var[channel] = momentum * unbiased + (1 - momentum) * variance;
      mean = all.mean;
      variance = all.squares / all.count;
    }
    const float inverse = 1 / sqrtf(variance + eps);
    const float scale = weight == nullptr ? inverse : weight[channel] * inverse;
    float* const to = statistics + channel;
    to[norm_mean * shape.channels] = mean;
    to[norm_inverse * shape.channels] = inverse;
    to[norm_scale * shape.channels] = scale;
    to[norm_shift * shape.channels] = (bias == nullptr ? 0 : bias[channel]) - mean * scale;
  }
};

/// output = activation(input * scale + shift + residual). residual may be null. Writes `marks`
/// [rows, channels / 8] unless it is null: bit i of a byte is 0 where the output of the i-th of
/// eight channels is 0 or less.
template <class T, NormFollows follows>
struct NormApplyKernel {
  static constexpr int phases = 1;
  NormShape shape;
  const T *input, *residual;
  const float* statistics;
  T* output;
  uint8_t* marks;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    const NormLane lane(shape, place);
    if (lane.first >= shape.rows) return;
    float scale[norm_width], shift[norm_width];
    for (int i = 0; i < norm_width; ++i) {
      scale[i] = statistics[norm_scale * shape.channels + lane.channel + i];
      shift[i] = statistics[norm_shift * shape.channels + lane.channel + i];
    }
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const int64_t place_of_row = row * shape.channels + lane.channel;
      auto values = load_values(input + place_of_row);
      Values<T> rest;
      if (residual != nullptr) rest = load_values(residual + place_of_row);
      unsigned passed = 0;
      for (int i = 0; i < norm_width; ++i) {
        float value = static_cast<float>(values.values[i]) * scale[i] + shift[i];
        if (residual != nullptr) value += static_cast<float>(rest.values[i]);
        values.values[i] = static_cast<T>(followed<follows>(value));
        passed |= static_cast<float>(values.values[i]) <= 0 ? 0u : 1u << i;
      }
      store_values(output + place_of_row, values);
      if (marks != nullptr) marks[place_of_row / norm_width] = static_cast<uint8_t>(passed);
    }
  }
};

/// The tensors from which a backward pass computes the activation's derivative.
template <class T>
struct NormSlopes {
  const T* gradient;     ///< gradient of the output
  const T* added;        ///< a further gradient of the output, or null
  const T* input;        ///< null if it is not needed
  const T* residual;     ///< null without gelu
  const T* output;       ///< null without relu and a residual, and where there are marks
  const uint8_t* marks;  ///< of NormApplyKernel, or null
  const float* statistics;

  /// The values of the tensors at one offset.
  struct Loaded {
    Values<T> gradient, added, input, residual, output;
    unsigned passed;
  };

  COMPOSER_ANYWHERE Loaded load(int64_t place) const {
    Loaded loaded;
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
  COMPOSER_ANYWHERE float before(const Loaded& at, int i, float scale, float shift) const {
    float from_above = static_cast<float>(at.gradient.values[i]);
    if (added != nullptr) from_above += static_cast<float>(at.added.values[i]);
    if constexpr (follows == NormFollows::nothing) return from_above;
    if (follows == NormFollows::relu && marks != nullptr)
      return (at.passed >> i & 1) != 0 ? from_above : 0.f;
    float value = input_of(at, i) * scale + shift;
    if constexpr (follows == NormFollows::gelu) {
      if (residual != nullptr) value += static_cast<float>(at.residual.values[i]);
      return from_above * gelu_slope(value);
    }
    if (output != nullptr) value = static_cast<float>(at.output.values[i]);
    return value <= 0 ? 0.f : from_above;
  }
};

/// Each block's sums of g and of g * (input - mean), where g is the gradient before the activation:
/// `partial` [blocks, 2, channels]. Writes g to `before` unless `before` is null.
template <class T, NormFollows follows>
struct NormSumsKernel {
  static constexpr int phases = 1 + tree_phases;
  NormShape shape;
  NormSlopes<T> slopes;
  T* before;
  float* partial;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const NormLane lane(shape, place);
    NormShared shared(memory, place);
    const int y = place.lane_y;
    if (phase == 0) {
      float sums[2][norm_width] = {};
      of_lane(lane, sums);
      for (int kind = 0; kind < 2; ++kind)
        for (int i = 0; i < norm_width; ++i) shared.at(kind, y, i) = sums[kind][i];
      return;
    }
    const int distance = tree_distance(place, phase);
    if (distance == 0 || lane.channel >= shape.channels) return;
    float* const to =
        partial + static_cast<int64_t>(place.block_y) * 2 * shape.channels + lane.channel;
    for (int kind = 0; kind < 2; ++kind)
      for (int i = 0; i < norm_width; ++i) {
        const float sum = shared.at(kind, y, i) + shared.at(kind, y + distance, i);
        shared.at(kind, y, i) = sum;
        if (distance == 1) to[kind * shape.channels + i] = sum;
      }
  }

 private:
  COMPOSER_ANYWHERE void of_lane(const NormLane& lane, float (&sums)[2][norm_width]) const {
    if (lane.first >= shape.rows) return;
    const float* const statistics = slopes.statistics + lane.channel;
    float mean[norm_width], scale[norm_width], shift[norm_width];
    for (int i = 0; i < norm_width; ++i) {
      mean[i] = statistics[norm_mean * shape.channels + i];
      scale[i] = statistics[norm_scale * shape.channels + i];
      shift[i] = statistics[norm_shift * shape.channels + i];
    }
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const int64_t place = row * shape.channels + lane.channel;
      const auto loaded = slopes.load(place);
      Values<T> rounded;
      for (int i = 0; i < norm_width; ++i) {
        const float gradient = slopes.template before<follows>(loaded, i, scale[i], shift[i]);
        rounded.values[i] = static_cast<T>(gradient);
        sums[0][i] += gradient;
        sums[1][i] += gradient * (slopes.input_of(loaded, i) - mean[i]);
      }
      if (before != nullptr) store_values(before + place, rounded);
    }
  }
};

/// Gradients of weight and bias from the partial results of NormSumsKernel, and the line of
/// NormGradientKernel: the input's gradient is scale * g + slope * (input - mean) + offset, with
/// slope and offset in the rows of `line` [2, channels]. Lanes as in NormStatisticsKernel. `weight`
/// and `bias` may be null.
struct NormLineKernel {
  static constexpr int phases = 1 + tree_phases;
  NormShape shape;
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
        for (int kind = 0; kind < 2 && block < shape.blocks; ++kind)
          some[i][kind] =
              partial[(static_cast<int64_t>(block) * 2 + kind) * shape.channels + channel];
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

/// The input's gradient. If NormSumsKernel wrote g, slopes.gradient is g and `follows` is nothing.
template <class T, NormFollows follows>
struct NormGradientKernel {
  static constexpr int phases = 1;
  NormShape shape;
  NormSlopes<T> slopes;
  const float* line;
  T* gradient;

  COMPOSER_ANYWHERE void phase(int, const Place& place, void*) const {
    const NormLane lane(shape, place);
    if (lane.first >= shape.rows) return;
    const float* const statistics = slopes.statistics + lane.channel;
    float mean[norm_width], scale[norm_width], shift[norm_width], slope[norm_width],
        offset[norm_width];
    for (int i = 0; i < norm_width; ++i) {
      mean[i] = statistics[norm_mean * shape.channels + i];
      scale[i] = statistics[norm_scale * shape.channels + i];
      shift[i] = statistics[norm_shift * shape.channels + i];
      slope[i] = line[lane.channel + i];
      offset[i] = line[shape.channels + lane.channel + i];
    }
    for (int64_t row = lane.first; row < shape.rows; row += lane.step) {
      const int64_t place_of_row = row * shape.channels + lane.channel;
      const auto loaded = slopes.load(place_of_row);
      Values<T> result;
      for (int i = 0; i < norm_width; ++i) {
        const float before = slopes.template before<follows>(loaded, i, scale[i], shift[i]);
        const float along =
            slopes.input != nullptr ? slope[i] * (slopes.input_of(loaded, i) - mean[i]) : 0.f;
        result.values[i] = static_cast<T>(scale[i] * before + along + offset[i]);
      }
      store_values(gradient + place_of_row, result);
    }
  }
};

/// The grid of the kernels over rows.
struct NormGrid {
  NormShape shape;
  Grid grid;  ///< its shared memory holds two numbers per channel
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
  grid.shared = NormShared::bytes(grid, 2);
  return {{rows, channels, grid.blocks_y, grid.lanes_y}, grid};
}

/// The grid of the kernels over partial results. `kinds`: shared numbers per thread.
inline Grid norm_channel_grid(const NormShape& shape, int kinds) {
  constexpr int across = 8, down = 32;  // 8 floats fill a memory transaction
  return {(shape.channels + across - 1) / across, 1, across, down,
          sizeof(float) * static_cast<size_t>(kinds * across * down)};
}

}  // namespace composer::cuda
