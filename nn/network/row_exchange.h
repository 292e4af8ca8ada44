// Rows of images that are divided among ranks: who has which, and how a rank gets those of others.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "nn/distributed/ranks.h"

namespace composer {

/// Rows [begin, end).
struct RowRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const RowRange&) const = default;
};

/// What both have; where that is nothing, an empty range.
RowRange common(RowRange a, RowRange b);

/// Those that a rank has of `height` rows: shares in the order of the ranks that differ by one row
/// at most, perhaps none.
RowRange own_rows(int64_t height, int64_t rank, int64_t ranks);

/// A convolution or a pooling as it runs down an image.
struct RowWindow {
  int64_t kernel, stride = 1, padding = 0, dilation = 1;
  bool ceil_mode = false;
  /// A window that reaches past the padding below is cut off there, as an average's, which counts
  /// its cells; else what is past it is padding too.
  bool cut_off = false;

  /// Rows from a window's first to its last.
  int64_t span() const { return dilation * (kernel - 1) + 1; }
  int64_t output_height(int64_t height) const;  ///< LayerError where no window fits in
  /// Rows of the input that these of the output are made of; those below 0 and from its height on
  /// are padding. For no rows at all those of one window of padding alone, so that an operation has
  /// something to run on.
  RowRange input_of(RowRange output, int64_t height) const;
};

/// Rows of an operation's input that one rank gives to the others, or gets from them, of the rank
/// that has most to do: RowExchange's, of an image. height: of the input.
int64_t most_rows_exchanged(int64_t height, const RowWindow& window, int64_t ranks);

/// How the ranks of an image come from the rows of an operation's input that each has to those that
/// it needs: all rows that its own part of the output is made of.
class RowExchange {
 public:
  /// ranks: those of the image. height: of the input.
  RowExchange(Ranks ranks, int64_t height, const RowWindow& window);

  /// Of the input.
  RowRange own() const { return owned_[place_]; }
  RowRange needed() const { return needed_[place_]; }
  /// Whether some rank needs anything other than its own rows; the same on all.
  bool changes() const { return owned_ != needed_; }
  const Ranks& ranks() const { return ranks_; }

  /// What this rank needs of the rows of each other one: [N, C, n, W]. rows: its own. Every rank
  /// calls it.
  std::vector<at::Tensor> fetched(const at::Tensor& rows) const;
  /// needed() rows: this rank's own, those of others and, outside of the image, `outside`. The own
  /// ones themselves where they are all.
  at::Tensor joined(const at::Tensor& rows, const std::vector<at::Tensor>& fetched,
                    double outside) const;
  /// The gradient of this rank's rows, by that of joined() of every rank, which all give.
  at::Tensor gradient(const at::Tensor& of_joined) const;

 private:
  /// Of `tensor`, whose first row is row `first` of the image.
  static at::Tensor rows_of(const at::Tensor& tensor, int64_t first, RowRange rows);
  /// Rows that rank `to` needs of those of rank `from`, another one.
  RowRange sent(size_t from, size_t to) const;

  Ranks ranks_;
  size_t place_;
  std::vector<RowRange> owned_, needed_;
};

}  // namespace composer
