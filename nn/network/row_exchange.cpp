#include "nn/network/row_exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "nn/network/layer_error.h"
#include "nn/network/share.h"

namespace composer {

RowRange common(RowRange a, RowRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

RowRange own_rows(int64_t height, int64_t rank, int64_t ranks) {
  return {share_begin(height, rank, ranks), share_begin(height, rank + 1, ranks)};
}

int64_t RowWindow::output_height(int64_t height) const {
  const int64_t last = height + 2 * padding - span();
  if (last < 0)
    throw LayerError("images of " + std::to_string(height) + " rows, with " +
                     std::to_string(padding) +
                     " of padding on either side, are too small for a "
                     "window of " +
                     std::to_string(span()));
  const int64_t rows = (last + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // A window may not begin in the padding below.
  return ceil_mode && (rows - 1) * stride >= height + padding ? rows - 1 : rows;
}

RowRange RowWindow::input_of(RowRange output, int64_t height) const {
  if (output.empty()) return {-span(), 0};
  const int64_t end = (output.end - 1) * stride - padding + span();
  return {output.begin * stride - padding, cut_off ? std::min(end, height + padding) : end};
}

int64_t most_rows_exchanged(int64_t height, const RowWindow& window, int64_t ranks) {
  const int64_t output_height = window.output_height(height);
  std::vector<int64_t> given(static_cast<size_t>(ranks)), taken(given.size());
  for (int64_t to = 0; to < ranks; ++to) {
    const auto needed = window.input_of(own_rows(output_height, to, ranks), height);
    for (int64_t from = 0; from < ranks; ++from) {
      if (from == to) continue;
      const int64_t rows = common(own_rows(height, from, ranks), needed).size();
      given[static_cast<size_t>(from)] += rows, taken[static_cast<size_t>(to)] += rows;
    }
  }
  return std::max(std::ranges::max(given), std::ranges::max(taken));
}

RowExchange::RowExchange(Ranks ranks, int64_t height, const RowWindow& window)
    : ranks_(std::move(ranks)), place_(static_cast<size_t>(ranks_.rank())) {
  const int64_t output_height = window.output_height(height);
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    owned_.push_back(own_rows(height, rank, ranks_.size()));
    needed_.push_back(window.input_of(own_rows(output_height, rank, ranks_.size()), height));
  }
}

RowRange RowExchange::sent(size_t from, size_t to) const {
  return from == to ? RowRange{} : common(owned_[from], needed_[to]);
}

at::Tensor RowExchange::rows_of(const at::Tensor& tensor, int64_t first, RowRange rows) {
  return tensor.narrow(2, rows.empty() ? 0 : rows.begin - first, rows.size());
}

std::vector<at::Tensor> RowExchange::fetched(const at::Tensor& rows) const {
  std::vector<at::Tensor> given, taken;
  bool any = false;
  auto sizes = rows.sizes().vec();
  for (size_t from = 0; from < owned_.size(); ++from) {
    for (size_t to = 0; to < owned_.size(); ++to) any = any || !sent(from, to).empty();
    given.push_back(rows_of(rows, own().begin, sent(place_, from)).contiguous());
    sizes[2] = sent(from, place_).size();
    taken.push_back(at::empty(sizes, rows.options()));
  }
  if (any) ranks_.exchange(given, taken);
  return taken;
}

at::Tensor RowExchange::joined(const at::Tensor& rows, const std::vector<at::Tensor>& fetched,
                               double outside) const {
  if (own() == needed()) return rows;
  auto sizes = rows.sizes().vec();
  sizes[2] = needed().size();
  const auto all = at::empty(sizes, rows.options(), rows.suggest_memory_format());
  RowRange inside{needed().end, needed().begin};
  for (size_t rank = 0; rank < owned_.size(); ++rank) {
    const auto part = common(owned_[rank], needed());
    if (part.empty()) continue;
    inside = {std::min(inside.begin, part.begin), std::max(inside.end, part.end)};
    rows_of(all, needed().begin, part)
        .copy_(rank == place_ ? rows_of(rows, own().begin, part) : fetched[rank]);
  }
  if (inside.empty()) return all.fill_(outside);
  rows_of(all, needed().begin, {needed().begin, inside.begin}).fill_(outside);
  rows_of(all, needed().begin, {inside.end, needed().end}).fill_(outside);
  return all;
}

at::Tensor RowExchange::gradient(const at::Tensor& of_joined) const {
  std::vector<at::Tensor> given, taken;
  bool any = false;
  auto sizes = of_joined.sizes().vec();
  for (size_t other = 0; other < owned_.size(); ++other) {
    for (size_t to = 0; to < owned_.size(); ++to) any = any || !sent(other, to).empty();
    given.push_back(rows_of(of_joined, needed().begin, sent(other, place_)).contiguous());
    sizes[2] = sent(place_, other).size();
    taken.push_back(at::empty(sizes, of_joined.options()));
  }
  if (any) ranks_.exchange(given, taken);

  sizes[2] = own().size();
  const auto of_own =
      at::zeros(sizes, of_joined.options().memory_format(of_joined.suggest_memory_format()));
  const auto kept = common(own(), needed());
  rows_of(of_own, own().begin, kept).copy_(rows_of(of_joined, needed().begin, kept));
  for (size_t other = 0; other < owned_.size(); ++other)
    if (const auto rows = sent(place_, other); !rows.empty())
      rows_of(of_own, own().begin, rows).add_(taken[other]);
  return of_own;
}

}  // namespace composer
