// Batch normalisation with a residual and an activation, NHWC: the passes of forward and backward.
// Images are [rows, channels], a row a pixel; channels are a multiple of norm_width. Statistics are
// float32: of a thread's own rows around the first of them, and merged by count, mean and sum of
// squares (Chan et al. 1983), always in the same order.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/grid.h"
#include "cuda/norm_launch.h"
#include "cuda/values.h"

namespace composer::cuda {

/// Channels that a thread has.
inline constexpr int norm_width = values_at_once;

/// Rows of the statistics [4, channels]: a value before residual and activation is
/// input * scale + shift.
enum NormStatistic { norm_mean, norm_inverse, norm_scale, norm_shift, norm_statistics };

/// How the rows are divided: those of lane y of block b are b * lanes + y and every
/// blocks * lanes-th from there.
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
  COMPOSER_ANYWHERE int64_t rows_of_lane(int block, int lane) const {
    const int64_t rounds = rows / step(), first = static_cast<int64_t>(block) * lanes + lane;
    return rounds + (first < rows - rounds * step() ? 1 : 0);
  }
};

/// The activation's slope at `value`, which comes before it.
COMPOSER_ANYWHERE float gelu_slope(float value) {
  constexpr float root_half = 0.70710678f, inverse_root_two_pi = 0.39894228f;
  return 0.5f * (1 + erff(value * root_half)) +
         value * inverse_root_two_pi * expf(-0.5f * value * value);
}

COMPOSER_ANYWHERE float followed_by(NormFollows follows, float value) {
  constexpr float root_half = 0.70710678f;
  if (follows == NormFollows::relu) return value < 0 ? 0 : value;  // nan stays
  if (follows == NormFollows::gelu) return 0.5f * value * (1 + erff(value * root_half));
  return value;
}

/// Where a thread works: its first channel, its first row and how far the next ones are.
struct NormLane {
  int channel;
  int64_t first, step;

  COMPOSER_ANYWHERE NormLane(const NormShape& shape, const Place& place)
      : channel((place.block_x * place.lanes_x + place.lane_x) * norm_width),
        first(static_cast<int64_t>(place.block_y) * place.lanes_y + place.lane_y),
        step(shape.step()) {
    if (channel >= shape.channels) first = shape.rows;  // it has none
  }
};

/// Count, mean and sum of squared differences from it.
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

/// Shared memory as numbers[kind][lane_y][channel of the block].
class NormShared {
 public:
  COMPOSER_ANYWHERE NormShared(void* memory, const Place& place)
      : numbers_(static_cast<float*>(memory)), place_(place) {}
  COMPOSER_ANYWHERE float& at(int kind, int lane_y, int i) {
    const int across = place_.lanes_x * norm_width;
    return numbers_[(kind * place_.lanes_y + lane_y) * across + place_.lane_x * norm_width + i];
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
  static constexpr int phases = 2;
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
    } else if (place.lane_y == 0 && lane.channel < shape.channels) {
      for (int i = 0; i < norm_width; ++i) {
        NormMoments all;
        for (int y = 0; y < place.lanes_y; ++y)
          all.merge({static_cast<float>(shape.rows_of_lane(place.block_y, y)), shared.at(0, y, i),
                     shared.at(1, y, i)});
        float* const to =
            partial + static_cast<int64_t>(place.block_y) * 2 * shape.channels + lane.channel + i;
        to[0] = all.mean;
        to[shape.channels] = all.squares;
      }
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

/// partial of NormMomentsKernel -> the statistics; the running ones move. A thread a channel, lanes
/// in y a share of the blocks each. partial null: statistics are those of the running ones.
struct NormStatisticsKernel {
  static constexpr int phases = 2;
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
    if (phase == 0) {
      if (partial == nullptr) return;
      NormMoments some;
      for (int block = place.lane_y; block < shape.blocks; block += place.lanes_y)
        some.merge(of_block(block, channel));
      at(0, place.lane_y) = some.count;
      at(1, place.lane_y) = some.mean;
      at(2, place.lane_y) = some.squares;
    } else if (place.lane_y == 0) {
      NormMoments all;
      for (int y = 0; partial != nullptr && y < place.lanes_y; ++y)
        all.merge({at(0, y), at(1, y), at(2, y)});
      finish(channel, all);
    }
  }

 private:
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

/// output = activation(input * scale + shift + residual). residual may be null.
template <class T>
struct NormApplyKernel {
  static constexpr int phases = 1;
  NormShape shape;
  const T *input, *residual;
  const float* statistics;
  T* output;
  NormFollows follows;

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
      Values<T> rest{};
      if (residual != nullptr) rest = load_values(residual + place_of_row);
      for (int i = 0; i < norm_width; ++i) {
        float value = static_cast<float>(values.values[i]) * scale[i] + shift[i];
        if (residual != nullptr) value += static_cast<float>(rest.values[i]);
        values.values[i] = static_cast<T>(followed_by(follows, value));
      }
      store_values(output + place_of_row, values);
    }
  }
};

/// What a backward pass reads to know the slope of the activation.
template <class T>
struct NormSlopes {
  const T* gradient;  ///< the output's
  const T* input;     ///< null where nothing of it is needed
  const T* residual;  ///< with gelu; else null
  const T* output;    ///< with relu and a residual; else null
  const float* statistics;
  NormFollows follows;

  /// The gradient before the activation.
  COMPOSER_ANYWHERE void at(int64_t place, const float* scale, const float* shift,
                            const float* inputs, float* gradients) const {
    const auto given = load_values(gradient + place);
    Values<T> outputs{}, rest{};
    if (output != nullptr) outputs = load_values(output + place);
    if (residual != nullptr) rest = load_values(residual + place);
    for (int i = 0; i < norm_width; ++i) {
      const float before = inputs[i] * scale[i] + shift[i] +
                           (residual != nullptr ? static_cast<float>(rest.values[i]) : 0.f);
      const float result = output != nullptr ? static_cast<float>(outputs.values[i]) : before;
      const float from_above = static_cast<float>(given.values[i]);
      gradients[i] = follows == NormFollows::relu   ? (result <= 0 ? 0.f : from_above)
                     : follows == NormFollows::gelu ? from_above * gelu_slope(before)
                                                    : from_above;
    }
  }
};

/// Each block's sums of g and of g * (input - mean), g the gradient before the activation: partial
/// [blocks, 2, channels]. g itself goes to `before`, unless that is null.
template <class T>
struct NormSumsKernel {
  static constexpr int phases = 2;
  NormShape shape;
  NormSlopes<T> slopes;
  T* before;
  float* partial;

  COMPOSER_ANYWHERE void phase(int phase, const Place& place, void* memory) const {
    const NormLane lane(shape, place);
    NormShared shared(memory, place);
    if (phase == 0) {
      float sums[2][norm_width] = {};
      of_lane(lane, sums);
      for (int kind = 0; kind < 2; ++kind)
        for (int i = 0; i < norm_width; ++i) shared.at(kind, place.lane_y, i) = sums[kind][i];
    } else if (place.lane_y == 0 && lane.channel < shape.channels) {
      float* const to =
          partial + static_cast<int64_t>(place.block_y) * 2 * shape.channels + lane.channel;
      for (int kind = 0; kind < 2; ++kind)
        for (int i = 0; i < norm_width; ++i) {
          float sum = 0;
          for (int y = 0; y < place.lanes_y; ++y) sum += shared.at(kind, y, i);
          to[kind * shape.channels + i] = sum;
        }
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
      float inputs[norm_width] = {}, gradients[norm_width];
      if (slopes.input != nullptr) {
        const auto values = load_values(slopes.input + place);
        for (int i = 0; i < norm_width; ++i) inputs[i] = static_cast<float>(values.values[i]);
      }
      slopes.at(place, scale, shift, inputs, gradients);
      Values<T> rounded;
      for (int i = 0; i < norm_width; ++i) {
        rounded.values[i] = static_cast<T>(gradients[i]);
        sums[0][i] += gradients[i];
        sums[1][i] += gradients[i] * (inputs[i] - mean[i]);
      }
      if (before != nullptr) store_values(before + place, rounded);
    }
  }
};

/// partial of NormSumsKernel -> the gradients of weight and bias, and what NormGradientKernel
/// needs: the input's gradient is scale * g + slope * (input - mean) + offset, rows of `line` [2,
/// channels]: slope, offset. A thread a channel. weight, bias may be null.
struct NormLineKernel {
  static constexpr int phases = 2;
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
    if (phase == 0) {
      float sums[2] = {};
      for (int block = place.lane_y; block < shape.blocks; block += place.lanes_y)
        for (int kind = 0; kind < 2; ++kind)
          sums[kind] +=
              partial[(static_cast<int64_t>(block) * 2 + kind) * shape.channels + channel];
      for (int kind = 0; kind < 2; ++kind) at(kind, place.lane_y) = sums[kind];
    } else if (place.lane_y == 0) {
      float sums[2] = {};
      for (int y = 0; y < place.lanes_y; ++y)
        for (int kind = 0; kind < 2; ++kind) sums[kind] += at(kind, y);
      finish(channel, sums);
    }
  }

 private:
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

/// The input's gradient. Where NormSumsKernel wrote g, that is slopes.gradient, and follows
/// nothing.
template <class T>
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
      float inputs[norm_width] = {}, gradients[norm_width];
      if (slopes.input != nullptr) {
        const auto values = load_values(slopes.input + place_of_row);
        for (int i = 0; i < norm_width; ++i) inputs[i] = static_cast<float>(values.values[i]);
      }
      slopes.at(place_of_row, scale, shift, inputs, gradients);
      Values<T> result;
      for (int i = 0; i < norm_width; ++i) {
        const float along = slopes.input != nullptr ? slope[i] * (inputs[i] - mean[i]) : 0.f;
        result.values[i] = static_cast<T>(scale[i] * gradients[i] + along + offset[i]);
      }
      store_values(gradient + place_of_row, result);
    }
  }
};

/// Of the kernels over rows.
struct NormGrid {
  NormShape shape;
  Grid grid;  ///< with shared memory for two numbers a channel
};

/// As many threads across as channels want, and about so many blocks.
inline NormGrid norm_grid(int64_t rows, int channels, int wanted_blocks = 1056) {
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

/// Of the kernels with a thread a channel. kinds: of the numbers that they share.
inline Grid norm_channel_grid(const NormShape& shape, int kinds) {
  constexpr int across = 32, down = 8;
  return {(shape.channels + across - 1) / across, 1, across, down,
          sizeof(float) * static_cast<size_t>(kinds * across * down)};
}

}  // namespace composer::cuda
