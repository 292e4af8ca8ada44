#include "nn/optimization/muon.h"

#include <cmath>

#include "base/balanced.h"
#include "nn/device/optional_tensor.h"
#include "nn/optimization/skipped_step.h"

namespace composer {
namespace {

enum Rule : int64_t { sgd, muon };

constexpr double tiny = 1e-7;

/// [out, the rest], a view where the strides allow. The columns are in the order of the strides,
/// which does not matter to orthogonalize().
at::Tensor rows_of(const at::Tensor& weight) {
  const bool channels_last = weight.is_contiguous(at::MemoryFormat::ChannelsLast);
  return (channels_last ? weight.permute({0, 2, 3, 1}) : weight).reshape({weight.size(0), -1});
}

/// `rows` in the shape of `weight`; reverses rows_of(weight).
at::Tensor shaped(const at::Tensor& rows, const at::Tensor& weight) {
  if (!weight.is_contiguous(at::MemoryFormat::ChannelsLast)) return rows.view(weight.sizes());
  return rows.view({weight.size(0), weight.size(2), weight.size(3), weight.size(1)})
      .permute({0, 3, 1, 2});
}

/// The iteration on a matrix with a shorter side than this takes less time than sending it.
constexpr int64_t shortest_sent = 128;

using Owners = std::vector<std::optional<int64_t>>;

Owners owners_of(const std::vector<at::Tensor>& matrices, int64_t ranks) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const auto& matrix : matrices) sizes.emplace_back(matrix.size(0), matrix.size(1));
  return share_out(sizes, ranks);
}

/// Sends each rank's own tensors to all ranks.
void exchange(const std::vector<at::Tensor>& tensors, const Owners& owners, const Ranks& ranks) {
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<at::Tensor> sent;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (owners[i] == rank) sent.push_back(tensors[i]);
    ranks.broadcast(sent, rank);
  }
}

/// lr * orthogonalize() of each direction, float32; directions of one shape are computed together.
std::vector<at::Tensor> moves_along(const std::vector<at::Tensor>& directions,
                                    const MuonParams& params, const at::Tensor& lr,
                                    const Ranks& ranks) {
  std::vector<at::Tensor> rows, results(directions.size());
  for (const auto& direction : directions) rows.push_back(rows_of(direction));
  const auto owners = owners_of(rows, ranks.size());
  std::map<std::pair<int64_t, int64_t>, std::vector<size_t>> by_shape;
  for (size_t i = 0; i < rows.size(); ++i)
    if (owners[i].value_or(ranks.rank()) == ranks.rank())
      by_shape[{rows[i].size(0), rows[i].size(1)}].push_back(i);
    else
      results[i] = at::empty_like(directions[i], directions[i].options().dtype(at::kFloat));
  const auto type = directions[0].is_cuda() ? at::kBFloat16 : at::kFloat;
  for (const auto& [shape, members] : by_shape) {
    std::vector<at::Tensor> matrices;
    for (const size_t i : members) matrices.push_back(rows[i]);
    const auto orthogonal =
        orthogonalize(at::stack(matrices).to(type), params.steps, params.coefficients);
    const auto done = orthogonal.to(at::kFloat) * lr;
    for (size_t k = 0; k < members.size(); ++k)
      results[members[k]] = shaped(done[static_cast<int64_t>(k)], directions[members[k]]);
  }
  exchange(results, owners, ranks);
  return results;
}

/// sqrt(output channels) / norm of each weight, float32 scalars; 1 where found_inf is 1.
std::vector<at::Tensor> rescaling(const std::vector<at::Tensor>& weights,
                                  const at::Tensor& found_inf) {
  auto factors = at::_foreach_norm(weights, 2);
  at::_foreach_clamp_min_(factors, tiny);
  at::_foreach_reciprocal_(factors);
  std::vector<at::Scalar> roots;
  for (const auto& weight : weights)
    roots.emplace_back(std::sqrt(static_cast<double>(weight.size(0))));
  at::_foreach_mul_(factors, roots);
  if (found_inf.defined()) {
    const auto skip = found_inf != 0;
    for (auto& factor : factors) factor.masked_fill_(skip, 1.0);
  }
  return factors;
}

}  // namespace

at::Tensor orthogonalize(const at::Tensor& matrices, int64_t steps,
                         const std::vector<double>& coefficients) {
  const double a = coefficients[0], b = coefficients[1], c = coefficients[2];
  const bool tall = matrices.size(-2) > matrices.size(-1);
  at::Tensor x = tall ? matrices.mT() : matrices;
  x = x / (at::linalg_vector_norm(x, 2, at::IntArrayRef{-2, -1}, /*keepdim=*/true) + tiny);
  for (int64_t step = 0; step < steps; ++step) {
    const auto gram = x.matmul(x.mT());
    x = a * x + (b * gram + c * gram.matmul(gram)).matmul(x);
  }
  return tall ? x.mT() : x;
}

std::vector<std::optional<int64_t>> share_out(
    const std::vector<std::pair<int64_t, int64_t>>& matrices, int64_t ranks) {
  Owners owners(matrices.size());
  if (ranks == 1) return owners;
  const auto work = [&](size_t i) {
    const auto [rows, columns] = matrices[i];
    return static_cast<double>(rows * columns) * static_cast<double>(std::min(rows, columns));
  };
  std::vector<size_t> large;
  std::vector<double> costs;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (std::min(matrices[i].first, matrices[i].second) < shortest_sent) continue;
    large.push_back(i);
    costs.push_back(work(i));
  }
  const auto workers = balanced(costs, std::vector<double>(static_cast<size_t>(ranks)));
  for (size_t k = 0; k < large.size(); ++k) owners[large[k]] = static_cast<int64_t>(workers[k]);
  return owners;
}

std::string MuonParams::check() const {
  if (coefficients.size() != 3) return "coefficients: must be three numbers";
  const auto decays = [](const GroupRule& rule) { return rule.weight_decay.has_value(); };
  return std::ranges::any_of(grouping.groups, decays)
             ? "groups: muon has no weight decay for convolution weights; set sgd_weight_decay"
             : "";
}

Muon::Muon(const Params& params)
    : Optimizer({.lr = params.lr, .grouping = params.grouping}, {{"momentum_buffer"}}),
      params_(params) {}

ParameterSettings Muon::settings(const std::string&, const at::Tensor& parameter) const {
  if (parameter.dim() == 4) return {.initial_lr = params_.lr, .weight_decay = 0, .rule = muon};
  const double lr =
      parameter.dim() == 2 ? params_.head_lr.value_or(params_.sgd_lr) : params_.sgd_lr;
  const double decay = lr > 0 ? params_.sgd_weight_decay * params_.sgd_lr / lr : 0;
  return {.initial_lr = lr, .weight_decay = decay, .rule = sgd};
}

void Muon::update(Update& update) {
  if (update.group.rule == muon)
    update_by_muon(update);
  else
    update_by_sgd(update);
}

bool Muon::in_one_pass(const ParameterGroup& group) const {
  return group.rule == sgd && typeid(*this) == typeid(Muon);
}

UpdateRule Muon::next_rule(const ParameterGroup& group, const State&, bool) {
  return SgdRule{.lr = *group.lr.const_data_ptr<float>(),
                 .decay = static_cast<float>(group.weight_decay),
                 .momentum = static_cast<float>(params_.sgd_momentum),
                 .nesterov = params_.sgd_momentum != 0};
}

void Muon::update_by_sgd(Update& update) const {
  const bool keeps = params_.sgd_momentum != 0;
  at::_fused_sgd_(update.parameters, update.gradients,
                  keeps ? update.state[0] : std::vector<at::Tensor>{}, update.group.weight_decay,
                  params_.sgd_momentum, update.group.lr, /*dampening=*/0,
                  /*nesterov=*/keeps, /*maximize=*/false, /*is_first_step=*/false,
                  /*grad_scale=*/{}, if_defined(update.found_inf));
}

std::vector<at::Tensor> Muon::directions(const Update& update) const {
  const auto gradients = zero_if(update.found_inf, update.gradients);
  const auto& buffers = update.state[0];
  multiply_unless(update.found_inf, buffers, params_.momentum);
  at::_foreach_add_(buffers, gradients);
  return params_.nesterov ? at::_foreach_add(gradients, buffers, params_.momentum) : buffers;
}

void Muon::update_by_muon(Update& update) const {
  if (update.group.initial_lr == 0) return;
  const at::Tensor& found_inf = update.found_inf;
  const at::Tensor lr = zero_if(found_inf, update.group.lr);
  const auto moves = moves_along(directions(update), params_, lr, ranks());
  if (params_.rescale_weights)
    at::_foreach_mul_(update.parameters, rescaling(update.parameters, found_inf));
  at::_foreach_sub_(update.parameters, moves);
}

}  // namespace composer
