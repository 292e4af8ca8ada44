#include "nn/network/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <set>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "nn/distributed/process_group.h"
#include "nn/network/bf16_copy.h"
#include "nn/network/gradient_sync.h"

namespace composer {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

constexpr int64_t row_alignment = 64;  ///< bytes; alignment of each parameter in a row

/// StorageImpl can be made to throw a given message when it is read; only its private flag undoes
/// that. An explicit instantiation may name a private member.
template <bool c10::StorageImpl::*flag>
struct ReadFlag {
  friend bool& throws_when_read(c10::StorageImpl& storage) { return storage.*flag; }
};
bool& throws_when_read(c10::StorageImpl& storage);
template struct ReadFlag<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

/// Makes the memory of `parameter`, which is alone in its storage, that of `row` from element
/// `begin` on.
void point_into(const at::Tensor& parameter, const at::Tensor& row, int64_t begin) {
  auto* const keeper = new at::Tensor(row);
  auto* const data = static_cast<std::byte*>(row.mutable_data_ptr()) +
                     begin * static_cast<int64_t>(row.element_size());
  auto* const storage = parameter.storage().unsafeGetStorageImpl();
  throws_when_read(*storage) = false;
  storage->set_data_ptr_noswap(
      {data, keeper, [](void* stored) { delete static_cast<at::Tensor*>(stored); }, row.device()});
  storage->set_nbytes(parameter.nbytes());
}

/// Frees the parameter's memory; reading it throws from now on.
void vacate(const at::Tensor& parameter) {
  auto* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap({nullptr, parameter.device()});
  storage->set_nbytes(size_t{0});
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "parallelism: fsdp: a weight of another rank is in memory only while its layer runs; see "
      "ShardedParameters::is_own");
}

/// The elements of `row` from `begin` on, with the sizes and strides of `parameter`.
at::Tensor view_of(const at::Tensor& row, int64_t begin, const at::Tensor& parameter) {
  return row.as_strided(parameter.sizes(), parameter.strides(), begin);
}

bool holds_residual_blocks(Block& block) {
  return std::ranges::any_of(placed_layers(block), [](const PlacedLayer& placed) {
    return dynamic_cast<ResidualBlock*>(placed.layer) != nullptr;
  });
}

/// Whether the block's slots are units, instead of the block.
bool is_entered(Block& block) {
  return dynamic_cast<ResidualBlock*>(&block) == nullptr &&
         (dynamic_cast<Sequential*>(&block) != nullptr || holds_residual_blocks(block));
}

void add_units(Block& block, const std::string& prefix, std::vector<PlacedLayer>& units) {
  for (Slot& slot : block.slots()) {
    auto* const inner = dynamic_cast<Block*>(slot.layer().get());
    if (inner != nullptr && is_entered(*inner))
      add_units(*inner, prefix + slot.name() + ".", units);
    else if (!slot.layer()->parameters().empty())
      units.push_back({prefix + slot.name(), slot.layer().get(), slot.next(), &slot});
  }
}

}  // namespace

std::vector<PlacedLayer> weight_units(Block& network) {
  std::vector<PlacedLayer> units;
  add_units(network, "", units);
  return units;
}

/// Asynchronous collectives, which run in the order of the calls.
class ShardedParameters::Collectives {
 public:
  explicit Collectives(const Ranks& ranks)
      : communicator_(std::dynamic_pointer_cast<ProcessGroupCommunicator>(ranks.communicator())) {}

  Work broadcast(const at::Tensor& tensor, int64_t from) const {
    c10d::BroadcastOptions options;
    options.rootRank = from;
    std::vector<at::Tensor> one{tensor};
    Work work;
    with_other_ranks([&] { work = communicator_->group()->broadcast(one, options); });
    return work;
  }

  /// Only rank `to` has the sum afterwards; the other ranks' tensors have undefined values.
  Work sum(const at::Tensor& tensor, int64_t to) const {
    c10d::ReduceOptions options;
    options.rootRank = to;
    std::vector<at::Tensor> one{tensor};
    Work work;
    with_other_ranks([&] { work = communicator_->group()->reduce(one, options); });
    return work;
  }

  void wait(Work& work) const {
    const double begin = steady_seconds();
    with_other_ranks([&] { work->wait(); });
    communicator_->add_wait(steady_seconds() - begin);
    work.reset();
  }

 private:
  std::shared_ptr<ProcessGroupCommunicator> communicator_;
};

/// One rank's parameters of one type in a unit, in one row of memory.
struct ShardedParameters::Shard {
  int64_t owner = 0;
  bool own = false;
  std::vector<at::Tensor> parameters;
  std::vector<int64_t> begins;  ///< offsets of the parameters in the row, in elements
  int64_t size = 0;             ///< elements of the row

  at::Tensor stored;     ///< the owner's row; for parameters that stay in memory, every rank's
  at::Tensor gathered;   ///< the row in use, where that is not `stored`
  at::Tensor arriving;   ///< the row in its sent type
  Work gathering;        ///< null without a running gather
  at::Tensor gradients;  ///< gradients of this backward pass, in their sent type
  Work summing;
  at::Tensor sum;  ///< on the owner: the sum since its gradients were handed over
  /// For each parameter: whether this rank had a gradient in this backward pass.
  std::vector<bool> arrived;

  void add(const at::Tensor& parameter) {
    begins.push_back(size);
    parameters.push_back(parameter);
    const auto step = row_alignment / static_cast<int64_t>(parameter.element_size());
    size += (parameter.numel() + step - 1) / step * step;
  }

  at::ScalarType type() const { return parameters[0].scalar_type(); }
  at::TensorOptions options() const {
    return at::TensorOptions(parameters[0].device()).dtype(type());
  }
  /// The type that is sent; float: the parameters' own type.
  at::ScalarType gathered_in(at::ScalarType wanted) const {
    return type() == at::kFloat ? wanted : type();
  }
  at::ScalarType sent_in(at::ScalarType wanted) const {
    return wanted == at::kFloat ? type() : wanted;
  }

  void use_row(const at::Tensor& row) const {
    for (size_t i = 0; i < parameters.size(); ++i) point_into(parameters[i], row, begins[i]);
  }

  void keep() {
    stored = at::empty({size}, options());
    for (size_t i = 0; i < parameters.size(); ++i)
      view_of(stored, begins[i], parameters[i]).copy_(parameters[i]);
    use_row(stored);
  }

  void vacate_all() const {
    for (const auto& parameter : parameters) vacate(parameter);
  }

  bool is_trained() const { return std::ranges::any_of(parameters, &at::Tensor::requires_grad); }

  /// Whether some parameter has a gradient that is not in a row yet.
  bool has_gradients() const {
    return std::ranges::any_of(parameters,
                               [](const at::Tensor& one) { return one.grad().defined(); });
  }
};

/// Layers whose weights are gathered and freed together.
struct ShardedParameters::Unit final : LayerWeights {
  enum class State { freed, gathering, gathered };

  explicit Unit(ShardedParameters& all) : all(all) {}
  void fetch() override { all.enter(*this); }
  at::Tensor release(const at::Tensor& input, at::Tensor output) override {
    return all.leave(*this, input, std::move(output));
  }

  void add(const at::Tensor& parameter, int64_t owner, bool own) {
    const auto same = [&](const Shard& shard) {
      return shard.owner == owner && shard.parameters[0].scalar_type() == parameter.scalar_type();
    };
    auto shard = std::ranges::find_if(shards, same);
    if (shard == shards.end()) {
      shard = shards.emplace(shards.end());
      shard->owner = owner, shard->own = own;
    }
    shard->add(parameter);
  }

  ShardedParameters& all;
  std::vector<std::shared_ptr<Layer>> layers;
  std::vector<Shard> shards;
  std::vector<CopiedWeight> copies;
  State state = State::freed;
  Unit* next = nullptr;       ///< the unit after it in the last forward pass
  Unit* next_back = nullptr;  ///< the unit after it in the last backward pass
  bool closed = false;        ///< its gradients of this backward pass are being summed
  bool recomputed = false;    ///< it ran again in this backward pass, as part of a larger layer
};

ShardedParameters::ShardedParameters(std::shared_ptr<Model> model,
                                     const std::vector<std::pair<at::Tensor, int64_t>>& parameters,
                                     Ranks ranks, const ShardingOptions& options)
    : model_(std::move(model)),
      ranks_(std::move(ranks)),
      options_(options),
      collectives_(std::make_unique<Collectives>(ranks_)),
      residents_(std::make_unique<Unit>(*this)) {
  const at::NoGradGuard no_grad;
  make_units();
  take_over(parameters);
}

ShardedParameters::~ShardedParameters() {
  // A later ShardedParameters may have taken over the model.
  for (auto* slot : slots_)
    if (std::ranges::find(units_, slot->weights(), [](const auto& unit) {
          return static_cast<LayerWeights*>(unit.get());
        }) != units_.end())
      slot->weights_from(nullptr);
}

/// A layer in several slots is one unit.
void ShardedParameters::make_units() {
  for (const auto& placed : weight_units(*model_)) {
    if (std::ranges::find(slots_, placed.slot) != slots_.end()) continue;
    auto unit = std::ranges::find_if(
        units_, [&](const auto& known) { return known->layers[0].get() == placed.layer; });
    if (unit == units_.end()) {
      unit = units_.insert(units_.end(), std::make_unique<Unit>(*this));
      (*unit)->layers.push_back(placed.slot->layer());
    }
    placed.slot->weights_from(unit->get());
    slots_.push_back(placed.slot);
  }
}

void ShardedParameters::take_over(const std::vector<std::pair<at::Tensor, int64_t>>& parameters) {
  std::map<const at::TensorImpl*, std::set<Unit*>> users;
  for (const auto& unit : units_)
    for (const auto& parameter : unit->layers[0]->parameters())
      users[parameter.unsafeGetTensorImpl()].insert(unit.get());
  std::set<const c10::StorageImpl*> storages;
  for (auto [parameter, owner] : parameters) {
    // A row holds dense parameters; each is alone in its storage.
    const bool plain = parameter.is_non_overlapping_and_dense() &&
                       parameter.storage_offset() == 0 &&
                       parameter.storage().nbytes() == parameter.nbytes();
    if (!plain || !storages.insert(parameter.storage().unsafeGetStorageImpl()).second)
      parameter.set_data(parameter.is_non_overlapping_and_dense()
                             ? parameter.detach().clone(at::MemoryFormat::Preserve)
                             : parameter.detach().clone(at::MemoryFormat::Contiguous));
    owners_[parameter.unsafeGetTensorImpl()] = owner;
    const auto& in_units = users[parameter.unsafeGetTensorImpl()];
    Unit& unit = in_units.size() == 1 ? **in_units.begin() : *residents_;
    unit.add(parameter, owner, owner == ranks_.rank());
  }
  for (auto& shard : residents_->shards) shard.keep();
  for (const auto& unit : units_) {
    for (auto& shard : unit->shards) shard.own ? shard.keep() : shard.vacate_all();
    for (const auto& module : unit->layers[0]->modules())
      if (const auto* const layer = dynamic_cast<const Bf16Weights*>(module.get()))
        for (const auto& copied : layer->copied_weights())
          if (copied.weight.defined()) unit->copies.push_back(copied);
    for (const auto& [weight, copy] : unit->copies) copy->release();
  }
}

std::optional<int64_t> ShardedParameters::owner(const at::Tensor& parameter) const {
  const auto found = owners_.find(parameter.unsafeGetTensorImpl());
  return found == owners_.end() ? std::nullopt : std::optional(found->second);
}

template <class F>
void ShardedParameters::each_shard(const F& work) {
  for (const auto& unit : units_)
    for (auto& shard : unit->shards) work(shard);
  for (auto& shard : residents_->shards) work(shard);
}

void ShardedParameters::begin_gather(Unit& unit) {
  if (unit.state != Unit::State::freed) return;
  RECORD_USER_SCOPE("gather weights");
  for (auto& shard : unit.shards) {
    const auto type = shard.gathered_in(options_.gathered);
    shard.arriving =
        shard.own ? shard.stored.to(type) : at::empty({shard.size}, shard.options().dtype(type));
    shard.gathering = collectives_->broadcast(shard.arriving, shard.owner);
  }
  unit.state = Unit::State::gathering;
}

void ShardedParameters::end_gather(Unit& unit) {
  if (unit.state != Unit::State::gathering) return;
  RECORD_USER_SCOPE("wait for weights");
  for (auto& shard : unit.shards) {
    collectives_->wait(shard.gathering);
    const auto arrived = std::exchange(shard.arriving, {});
    if (shard.own && arrived.is_same(shard.stored)) continue;
    shard.gathered = arrived.to(shard.type());
    shard.use_row(shard.gathered);
  }
  unit.state = Unit::State::gathered;
}

void ShardedParameters::gather(Unit& unit) {
  begin_gather(unit);
  end_gather(unit);
}

void ShardedParameters::free(Unit& unit) {
  end_gather(unit);
  if (unit.state == Unit::State::freed) return;
  for (auto& shard : unit.shards) {
    if (!shard.own)
      shard.vacate_all();
    else if (shard.gathered.defined())
      shard.use_row(shard.stored);
    shard.gathered.reset();
  }
  for (const auto& [weight, copy] : unit.copies) copy->release();
  unit.state = Unit::State::freed;
}

void ShardedParameters::send_residents() {
  written_ = false;
  const auto send = [&](Unit& unit) {
    for (auto& shard : unit.shards)
      shard.gathering = collectives_->broadcast(shard.stored, shard.owner);
    for (auto& shard : unit.shards) {
      collectives_->wait(shard.gathering);
      if (shard.own) continue;
      for (const auto& parameter : shard.parameters)
        parameter.unsafeGetTensorImpl()->bump_version();
    }
  };
  send(*residents_);
  if (!whole_) return;
  for (const auto& unit : units_) send(*unit);
}

void ShardedParameters::begin_pass() {
  const bool records = at::GradMode::is_enabled();
  const at::NoGradGuard no_grad;
  last_entered_ = nullptr;
  in_backward_ = false;
  for (const auto& unit : units_) free(*unit);  // no backward pass has followed the last pass
  // Before and after evaluations algorithms may write weights without calling written().
  const bool turned = std::exchange(recorded_, records) != records;
  if (written_ || (turned && !whole_)) send_residents();
}

void ShardedParameters::end_pass() {
  if (last_entered_ != nullptr) last_entered_->next = nullptr;
  for (const auto& unit : units_)
    // The pass ran other units than the last one.
    if (unit->state == Unit::State::gathering) free(*unit);
  ++passes_;
}

void ShardedParameters::enter(Unit& unit) {
  if (whole_) return;
  const at::NoGradGuard no_grad;
  if (!in_backward_) {
    if (last_entered_ != nullptr && last_entered_ != &unit) last_entered_->next = &unit;
    last_entered_ = &unit;
  } else {
    if (open_ != nullptr) close(*std::exchange(open_, nullptr));
    sum_waiting();
    unit.recomputed = true;
  }
  gather(unit);
  const bool wanted = unit.next != nullptr && !(in_backward_ && unit.next->closed);
  if (wanted) begin_gather(*unit.next);
}

at::Tensor ShardedParameters::leave(Unit& unit, const at::Tensor& input, at::Tensor output) {
  if (whole_) return output;
  const bool recorded = at::GradMode::is_enabled() && output.requires_grad();
  // Hooks of two units on one tensor would run in the wrong order.
  if (recorded && output.is_same(input)) output = output.view_as(output);
  if (recorded) output.register_hook([this, &unit](const at::TensorBase&) { open(unit); });
  // The backward pass begins with the last unit of the forward pass, which therefore stays
  // gathered.
  const bool ends_pass = passes_ > 0 && unit.next == nullptr && !in_backward_;
  if (!recorded || !ends_pass) free(unit);
  return output;
}

void ShardedParameters::begin_update() {
  summing_.clear(), waiting_.clear();
  each_shard([](Shard& shard) {
    shard.summing.reset();
    shard.gradients.reset(), shard.sum.reset();
  });
}

void ShardedParameters::before_backward() {
  in_backward_ = true;
  open_ = nullptr;
  for (const auto& unit : units_) unit->closed = unit->recomputed = false;
  each_shard([](Shard& shard) { shard.arrived.assign(shard.parameters.size(), false); });
}

void ShardedParameters::open(Unit& unit) {
  if (whole_ || !in_backward_) return;
  const at::NoGradGuard no_grad;
  if (open_ != nullptr && open_ != &unit) {
    open_->next_back = &unit;
    close(*open_);
  }
  open_ = &unit;
  if (!unit.recomputed) sum_waiting();
  gather(unit);
  for (const auto& [weight, copy] : unit.copies) copy->restore(weight);
  if (unit.next_back != nullptr) begin_gather(*unit.next_back);
}

void ShardedParameters::close(Unit& unit) {
  unit.recomputed ? waiting_.push_back(&unit) : sum_gradients(unit);
  free(unit);
}

void ShardedParameters::sum_gradients(Unit& unit) {
  end_sums();
  for (auto& shard : unit.shards) begin_sum(shard);
  unit.closed = true;
}

void ShardedParameters::sum_waiting() {
  for (Unit* const unit : waiting_) sum_gradients(*unit);
  waiting_.clear();
}

void ShardedParameters::begin_sum(Shard& shard) {
  if (!shard.is_trained()) return;
  RECORD_USER_SCOPE("gradient sum");
  const auto count = static_cast<int64_t>(shard.parameters.size());
  // With find_unused the row ends with the number of ranks that have each gradient.
  auto row = at::zeros({shard.size + (options_.find_unused ? count : 0)}, shard.options());
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(i);
    const at::Tensor& parameter = shard.parameters[index];
    if (!parameter.grad().defined()) continue;
    view_of(row, shard.begins[index], parameter).copy_(parameter.grad());
    if (options_.find_unused) row[shard.size + i].fill_(1);
    parameter.mutable_grad().reset();
    shard.arrived[index] = true;
  }
  shard.gradients = row.to(shard.sent_in(options_.sent));
  shard.summing = collectives_->sum(shard.gradients, shard.owner);
  sent_bytes_ += static_cast<int64_t>(shard.gradients.nbytes());
  summing_.push_back(&shard);
}

void ShardedParameters::end_sums() {
  for (Shard* const shard : summing_) {
    collectives_->wait(shard->summing);
    const auto sum = std::exchange(shard->gradients, {});
    if (!shard->own) continue;
    const auto row = sum.to(shard->type());
    shard->sum = shard->sum.defined() ? shard->sum.add_(row) : row;
  }
  summing_.clear();
}

void ShardedParameters::after_backward(bool last) {
  const at::NoGradGuard no_grad;
  if (open_ != nullptr) {
    open_->next_back = nullptr;
    close(*open_);
  }
  open_ = nullptr;
  sum_waiting();
  const auto is_late = [](const Unit& unit) {
    return !unit.closed || std::ranges::any_of(unit.shards, &Shard::has_gradients);
  };
  for (const auto& unit : units_)
    if (is_late(*unit)) sum_gradients(*unit);
  sum_gradients(*residents_);
  end_sums();
  for (const auto& unit : units_) free(*unit);
  in_backward_ = false;
  if (!options_.find_unused) check_arrived();
  if (!last) return;
  each_shard([&](Shard& shard) { hand_over(shard); });
  written_ = true;  // the update writes them
}

void ShardedParameters::check_arrived() const {
  const auto check = [](const Unit& unit) {
    for (const auto& shard : unit.shards)
      for (size_t i = 0; i < shard.parameters.size(); ++i)
        if (shard.parameters[i].requires_grad() && !shard.arrived[i]) throw took_no_part();
  };
  for (const auto& unit : units_) check(*unit);
  check(*residents_);
}

void ShardedParameters::hand_over(Shard& shard) {
  if (!shard.sum.defined()) return;
  const auto sum = std::exchange(shard.sum, {});
  const auto counts = options_.find_unused ? sum.slice(0, shard.size).cpu() : at::Tensor();
  for (size_t i = 0; i < shard.parameters.size(); ++i) {
    const at::Tensor& parameter = shard.parameters[i];
    const bool unused = counts.defined() && counts[static_cast<int64_t>(i)].item<double>() == 0;
    if (parameter.requires_grad() && !unused)
      parameter.mutable_grad() = view_of(sum, shard.begins[i], parameter);
  }
}

bool ShardedParameters::has_room() try {
  for (const auto& unit : units_)
    for (auto& shard : unit->shards)
      if (!shard.own) shard.stored = at::empty({shard.size}, shard.options());
  return true;
} catch (const c10::Error&) {  // an allocator has no memory left
  return false;
}

void ShardedParameters::make_whole() {
  if (whole_) return;
  const at::NoGradGuard no_grad;
  const auto others = [&](const auto& work) {
    for (const auto& unit : units_)
      for (auto& shard : unit->shards)
        if (!shard.own) work(shard);
  };
  for (const auto& unit : units_) free(*unit);
  if (ranks_.any(!has_room())) {
    others([](Shard& shard) { shard.stored.reset(); });
    log::warn(
        "parallelism: fsdp: a rank has no memory for all weights: they stay sharded after the "
        "run, and all ranks must evaluate and predict together");
    return;
  }
  others([](Shard& shard) { shard.use_row(shard.stored); });
  whole_ = true;
  send_residents();
}

}  // namespace composer
