// Operations on images whose rows are divided among ranks, with their gradients. Each rank computes
// its part of the result for whole images: its rows of outputs (own_rows()), its rows of gradients
// of a loss that is the sum over ranks, and its part of parameters' gradients, which are summed
// over ranks later. Every rank of an image makes the same calls in the same order, with its rows
// [N, C, rows, W], perhaps none.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/network/operations.h"

namespace composer {

/// Rows [begin, end).
struct RowRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const RowRange&) const = default;
};

/// The intersection; an empty range where there is none.
RowRange common(RowRange a, RowRange b);

/// A rank's rows of `height` rows. The ranks' shares follow each other and differ by one row at
/// most; a share may be empty.
RowRange own_rows(int64_t height, int64_t rank, int64_t ranks);

/// The window of a convolution or pooling along the height.
struct RowWindow {
  int64_t kernel, stride = 1, padding = 0, dilation = 1;
  bool ceil_mode = false;
  /// A window that reaches past the padding below is cut off there, as for an average, which counts
  /// its cells; else the rows past it are padding too.
  bool cut_off = false;

  /// Rows from a window's first to its last.
  int64_t span() const { return dilation * (kernel - 1) + 1; }
  int64_t output_height(int64_t height) const;  ///< LayerError if no window fits
  /// The input rows of these output rows; rows below 0 and from `height` on are padding. For no
  /// output rows: the rows of one window of padding, so that the operation has an input.
  RowRange input_of(RowRange output, int64_t height) const;
};

/// The most rows of an image that any rank sends, or receives, in a RowExchange. height: of the
/// input.
int64_t most_rows_exchanged(int64_t height, const RowWindow& window, int64_t ranks);

/// The halo exchange of an operation's input among the ranks of an image: from each rank's own rows
/// to all rows that its part of the output needs.
class RowExchange {
 public:
  /// ranks: of the image. height: of the input.
  RowExchange(Ranks ranks, int64_t height, const RowWindow& window);

  /// This rank's rows of the input.
  RowRange own() const { return owned_[rank_]; }
  RowRange needed() const { return needed_[rank_]; }
  /// Whether some rank needs anything but its own rows; the same on all ranks.
  bool changes() const { return owned_ != needed_; }
  const Ranks& ranks() const { return ranks_; }

  /// The rows that this rank needs of each other rank: [N, C, n, W]. rows: its own. Every rank
  /// calls it.
  std::vector<at::Tensor> fetched(const at::Tensor& rows) const;
  /// needed() rows: this rank's own ones, `fetched` ones of other ranks, and `outside` for rows
  /// outside of the image. Returns `rows` itself where they are all.
  at::Tensor joined(const at::Tensor& rows, const std::vector<at::Tensor>& fetched,
                    double outside) const;
  /// The gradient of this rank's rows from the gradients of joined() on all ranks. Every rank calls
  /// it.
  at::Tensor gradient(const at::Tensor& of_joined) const;

 private:
  /// `rows` of `tensor`, whose first row is row `first` of the image.
  static at::Tensor rows_of(const at::Tensor& tensor, int64_t first, RowRange rows);
  /// Exchanges rows of `tensor`, whose first row is row `first` of the image: each rank sends its
  /// own rows to the ranks that need them, or with `back` the rows of other ranks back to them.
  /// Returns the rows from each rank.
  std::vector<at::Tensor> exchanged(const at::Tensor& tensor, int64_t first, bool back) const;
  /// Rows of rank `from` that another rank, `to`, needs.
  RowRange sent(size_t from, size_t to) const;

  Ranks ranks_;
  size_t rank_;
  std::vector<RowRange> owned_, needed_;
};

RowWindow row_window(const Conv2dOptions& options);
RowWindow row_window(const Pool2dOptions& options);

/// op::conv2d. exchange: of the input's rows, with row_window(options). Saves only the input and
/// the fetched rows.
at::Tensor conv2d_by_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                          const Conv2dOptions& options, const RowExchange& exchange);

/// op::max_pool2d; the other arguments as in conv2d_by_rows().
at::Tensor max_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange);

/// op::avg_pool2d. exchange: with windows that are cut off.
at::Tensor avg_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange);

/// op::mean: [N, C], the same on all ranks. height: of whole images.
at::Tensor mean_by_rows(const at::Tensor& input, int64_t height, const Ranks& ranks);

/// op::group_norm with weight and bias. height: of whole images.
at::Tensor group_norm_by_rows(const at::Tensor& input, const at::Tensor& weight,
                              const at::Tensor& bias, const GroupNormOptions& options,
                              int64_t height, const Ranks& ranks);

}  // namespace composer
