#include "nn/distributed/ranks.h"

#include <algorithm>

#include "base/error.h"

namespace composer {
namespace {

at::Tensor bytes_of(const std::string& text) {
  const auto bytes = at::empty({std::ssize(text)}, at::kByte);
  std::ranges::copy(text, reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>()));
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
          static_cast<size_t>(bytes.numel())};
}

}  // namespace

std::string spatial_ranks_problem(int64_t spatial_ranks, int64_t ranks) {
  if (ranks % spatial_ranks == 0) return "";
  const auto wanted = std::to_string(spatial_ranks);
  return "spatial_ranks: " + wanted + " ranks share an image, which does not divide the " +
         std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
         " that there are; start a multiple of " + wanted + " (composer -n " + wanted +
         "), or give " + (ranks == 1 ? "1" : "a number that divides them");
}

Ranks Ranks::divided_by_rows(int64_t spatial_ranks) const {
  if (const auto problem = spatial_ranks_problem(spatial_ranks, size()); !problem.empty())
    throw UserError(problem);
  auto divided = *this;
  if (spatial_ranks == 1) return divided;
  std::vector<int64_t> of_rows, of_samples;
  for (int64_t other = 0; other < size(); ++other) {
    if (other / spatial_ranks == rank() / spatial_ranks) of_rows.push_back(other);
    if (other % spatial_ranks == rank() % spatial_ranks) of_samples.push_back(other);
  }
  divided.rows_ = communicator_->part(of_rows, "rows");
  if (of_samples.size() > 1) divided.samples_ = communicator_->part(of_samples, "samples");
  return divided;
}

void Ranks::sum(const at::Tensor& tensor) const { sum(std::vector<at::Tensor>{tensor}); }

void Ranks::sum(const std::vector<at::Tensor>& tensors) const {
  if (!alone()) communicator_->sum(tensors);
}

int64_t Ranks::sum(int64_t value) const {
  if (alone()) return value;
  const auto total = at::full({1}, value, at::kLong);
  sum(total);
  return total.item<int64_t>();
}

void Ranks::broadcast(const at::Tensor& tensor, int64_t from) const {
  broadcast(std::vector<at::Tensor>{tensor}, from);
}

void Ranks::broadcast(const std::vector<at::Tensor>& tensors, int64_t from) const {
  if (!alone() && !tensors.empty()) communicator_->broadcast(tensors, from);
}

std::string Ranks::broadcast(const std::string& text, int64_t from) const {
  if (alone()) return text;
  const auto size = at::full({1}, std::ssize(text), at::kLong);
  broadcast(size, from);
  auto bytes = rank() == from ? bytes_of(text) : at::empty({size.item<int64_t>()}, at::kByte);
  if (bytes.numel() > 0) broadcast(bytes, from);
  return text_of(bytes);
}

double Ranks::broadcast(double value, int64_t from) const {
  if (alone()) return value;
  const auto tensor = at::full({1}, value, at::kDouble);
  broadcast(tensor, from);
  return tensor.item<double>();
}

at::Tensor Ranks::gather(const at::Tensor& tensor) const {
  return alone() ? tensor.unsqueeze(0) : communicator_->gather(tensor);
}

at::Tensor Ranks::gather_rows(const at::Tensor& own, const std::vector<int64_t>& counts) const {
  auto sizes = own.sizes().vec();
  sizes[0] = std::ranges::max(counts);
  const auto sent = at::zeros(sizes, own.options().pinned_memory(false));
  sent.narrow(0, 0, own.size(0)).copy_(own);
  const auto gathered = gather(sent);
  std::vector<at::Tensor> rows;
  for (size_t rank = 0; rank < counts.size(); ++rank)
    rows.push_back(gathered[static_cast<int64_t>(rank)].narrow(0, 0, counts[rank]));
  return at::cat(rows);
}

void Ranks::exchange(const std::vector<at::Tensor>& sent,
                     const std::vector<at::Tensor>& received) const {
  if (!alone()) communicator_->exchange(sent, received);
}

std::vector<int64_t> Ranks::gather(int64_t value) const {
  if (alone()) return {value};
  const auto values = gather(at::full({1}, value, at::kLong));
  const auto* const data = values.const_data_ptr<int64_t>();
  return {data, data + values.numel()};
}

std::vector<std::string> Ranks::gather(const std::string& text) const {
  if (alone()) return {text};
  const auto sizes = gather(static_cast<int64_t>(text.size()));
  const auto longest = *std::ranges::max_element(sizes);
  std::vector<std::string> texts(sizes.size());
  if (longest == 0) return texts;
  const auto rows = gather(at::constant_pad_nd(bytes_of(text), {0, longest - std::ssize(text)}));
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i] = text_of(rows[static_cast<int64_t>(i)].slice(0, 0, sizes[i]));
  return texts;
}

bool Ranks::all(bool value) const { return sum(static_cast<int64_t>(value)) == size(); }
bool Ranks::any(bool value) const { return sum(static_cast<int64_t>(value)) > 0; }

void Ranks::barrier() const {
  if (!alone()) communicator_->barrier();
}

void Ranks::abort() const {
  for (const auto& communicator : {communicator_, rows_, samples_})
    if (communicator) communicator->abort();
}

}  // namespace composer
