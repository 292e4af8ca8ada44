#include "nn/optimization/optimizers.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/composer/wave.h"
#include "tests/ranks.h"
#include "tests/vectors.h"

namespace composer::optimizers_test {

namespace {

class Net : public torch::nn::Module {
 public:
  explicit Net(at::MemoryFormat format = at::MemoryFormat::Contiguous) {
    put("conv_weight", wave({8, 4, 3, 3}, 0, 0.1).contiguous(format));
    put("conv_bias", wave({8}, 1, 0.1));
    put("fc_weight", wave({5, 8}, 2, 0.1));
  }
  void put(const std::string& name, const at::Tensor& tensor) {
    if (parameters_.contains(name)) parameters_.erase(name);
    register_parameter(name, tensor.clone());
  }
  void drop(const std::string& name) { parameters_.erase(name); }

  /// The gradients of step `step`, in the given memory format.
  void backward(int step, at::MemoryFormat format = at::MemoryFormat::Preserve) {
    int k = 0;
    for (auto& parameter : parameters()) {
      at::Tensor gradient = wave(parameter.sizes(), 3 * step + k++, 0.37);
      if (parameter.dim() == 4)
        gradient = format == at::MemoryFormat::Preserve
                       ? at::empty_like(parameter).copy_(gradient).detach()
                       : gradient.contiguous(format);
      parameter.mutable_grad() = gradient;
    }
  }
};

double schedule(int step) { return 1 - step / 40.0; }

void train(Optimizer& optimizer, Net& net, int from, int to) {
  for (int step = from; step < to; ++step) {
    net.backward(step);
    optimizer.set_lr_multiplier(schedule(step));
    optimizer.step();
  }
}

std::vector<at::Tensor> snapshot(const Net& net) {
  std::vector<at::Tensor> copies;
  for (const auto& parameter : net.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.equal(y); });
}

SgdParams sgd(double momentum, double dampening, bool nesterov, double weight_decay = 0.01) {
  SgdParams params;
  params.lr = 0.1, params.momentum = momentum, params.weight_decay = weight_decay;
  params.dampening = dampening, params.nesterov = nesterov;
  return params;
}

AdamParams adam(double beta1, double beta2, bool amsgrad) {
  AdamParams params;
  params.lr = 0.01, params.betas = {beta1, beta2}, params.weight_decay = 0.05;
  params.amsgrad = amsgrad;
  return params;
}

template <class T>
std::shared_ptr<Optimizer> made(const std::function<void(typename T::Params&)>& set) {
  typename T::Params params;
  params.lr = 0.01;
  set(params);
  return std::make_shared<T>(params);
}

struct Case {
  std::string name;
  std::function<std::shared_ptr<Optimizer>()> make;
};

const std::vector<Case> all_cases{
    {"sgd", [] { return std::make_shared<Sgd>(sgd(0, 0, false, 0)); }},
    {"sgd_momentum", [] { return std::make_shared<Sgd>(sgd(0.9, 0, false)); }},
    {"sgd_nesterov", [] { return std::make_shared<Sgd>(sgd(0.9, 0, true)); }},
    {"sgd_dampening", [] { return std::make_shared<Sgd>(sgd(0.9, 0.5, false)); }},
    {"adamw", [] { return std::make_shared<AdamW>(adam(0.9, 0.999, false)); }},
    {"adamw_amsgrad", [] { return std::make_shared<AdamW>(adam(0.8, 0.95, true)); }},
    {"adam", [] { return made<Adam>([](auto&) {}); }},
    {"adam_amsgrad",
     [] {
       return made<Adam>([](auto& p) {
         p.betas = {0.8, 0.95}, p.weight_decay = 0.05, p.amsgrad = true;
       });
     }},
    {"rmsprop", [] { return made<Rmsprop>([](auto&) {}); }},
    {"rmsprop_momentum",
     [] {
       return made<Rmsprop>(
           [](auto& p) { p.alpha = 0.9, p.eps = 0.0316, p.weight_decay = 0.05, p.momentum = 0.9; });
     }},
    {"rmsprop_centered",
     [] { return made<Rmsprop>([](auto& p) { p.centered = true, p.momentum = 0.5; }); }},
    {"radam", [] { return made<RAdam>([](auto& p) { p.weight_decay = 0.05; }); }},
    {"radam_decoupled",
     [] {
       return made<RAdam>([](auto& p) {
         p.betas = {0.8, 0.95}, p.weight_decay = 0.05, p.decoupled_weight_decay = true;
       });
     }},
    {"lars", [] { return made<Lars>([](auto& p) { p.lr = 1, p.weight_decay = 0.05; }); }},
    {"lars_nesterov",
     [] {
       return made<Lars>([](auto& p) {
         p.lr = 1, p.weight_decay = 0.05, p.nesterov = true, p.trust_coeff = 0.02;
         p.trust_clip = true;
       });
     }},
    {"lars_undecayed", [] { return made<Lars>([](auto& p) { p.momentum = 0; }); }},
    {"lars_dampening",
     [] { return made<Lars>([](auto& p) { p.dampening = 0.5, p.always_adapt = true; }); }},
    {"lamb", [] { return made<Lamb>([](auto& p) { p.weight_decay = 0.05; }); }},
    {"lamb_plain",
     [] {
       return made<Lamb>([](auto& p) {
         p.bias_correction = p.grad_averaging = false, p.trust_clip = p.always_adapt = true;
         p.weight_decay = 0;
       });
     }},
    {"lamb_undecayed", [] { return made<Lamb>([](auto& p) { p.weight_decay = 0; }); }},
    {"decoupled_sgdw", [] { return std::make_shared<DecoupledSgdw>(sgd(0, 0, false)); }},
    {"decoupled_sgdw_dampening",
     [] { return std::make_shared<DecoupledSgdw>(sgd(0.9, 0.5, false)); }},
    {"decoupled_sgdw_nesterov", [] { return std::make_shared<DecoupledSgdw>(sgd(0.9, 0, true)); }},
    {"decoupled_adamw", [] { return std::make_shared<DecoupledAdamW>(adam(0.9, 0.999, false)); }},
    {"decoupled_adamw_amsgrad",
     [] { return std::make_shared<DecoupledAdamW>(adam(0.8, 0.95, true)); }},
};

/// One element under DecoupledSGDW or DecoupledAdamW, as their papers and Composer's facts state
/// them.
double by_formula(const Case& which, double w, int k, int64_t element) {
  const bool adamw = which.name.starts_with("decoupled_adamw");
  const bool amsgrad = which.name.ends_with("amsgrad"), nesterov = which.name.ends_with("nesterov");
  const double momentum = which.name == "decoupled_sgdw" ? 0 : 0.9;
  const double dampening = which.name.ends_with("dampening") ? 0.5 : 0;
  const double beta1 = amsgrad ? 0.8 : 0.9, beta2 = amsgrad ? 0.95 : 0.999;
  const double peak = adamw ? 0.01 : 0.1, decay = adamw ? 0.05 : 0.01;
  double m = 0, v = 0, largest = 0;
  for (int step = 0; step < 20; ++step) {
    const double g = static_cast<float>(std::sin(element * 0.37 + 3 * step + k));
    const double lr = peak * schedule(step);
    w *= 1 - lr / peak * decay;
    if (adamw) {
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      largest = std::max(largest, v);
      const double root =
          std::sqrt(amsgrad ? largest : v) / std::sqrt(1 - std::pow(beta2, step + 1));
      w -= lr / (1 - std::pow(beta1, step + 1)) * m / (root + 1e-8);
    } else {
      m = step == 0 ? g : momentum * m + (1 - dampening) * g;
      w -= lr * (momentum == 0 ? g : nesterov ? g + momentum * m : m);
    }
  }
  return w;
}

/// expected: what optimizers_reference.py prints.
void check_steps(const nlohmann::json& expected, at::MemoryFormat format) {
  for (const auto& [name, make] : all_cases) {
    if (name.starts_with("decoupled")) continue;
    CAPTURE(name);
    Net net(format);
    const auto optimizer = make();
    optimizer->attach(net);
    train(*optimizer, net, 0, 20);
    const std::vector<std::pair<std::string, std::string>> keys{
        {"conv_weight", "conv.weight"}, {"conv_bias", "conv.bias"}, {"fc_weight", "fc.weight"}};
    for (const auto& [own, theirs] : keys) {
      const auto values = expected.at(name).at(theirs).get<std::vector<float>>();
      const at::Tensor ours = net.named_parameters()[own].detach().contiguous().flatten();
      CHECK(at::allclose(ours, at::tensor(values), 1e-5, 1e-6));
    }
  }
}

}  // namespace

TEST_CASE("optimizers take the steps of their references", "[optimizers][parity]") {
  static const auto expected = nlohmann::json::parse(test::recorded("optimizers.json"));
  check_steps(expected, GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast));
}

TEST_CASE("optimizers take the steps of the PyTorch that is installed",
          "[optimizers][parity][peer][recorded][slow]") {
  if (!test::has_python()) {
    WARN("skipped: no " << test::python());
    return;
  }
  const auto answer = test::output_of("tests/composer/optimizers_reference.py");
  const auto expected = nlohmann::json::parse(answer);
  check_steps(expected, at::MemoryFormat::Contiguous);
  check_steps(expected, at::MemoryFormat::ChannelsLast);
  test::record("optimizers.json", answer);
}

TEST_CASE("decoupled optimizers follow their formulas", "[optimizers]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  for (const auto& which : all_cases) {
    if (!which.name.starts_with("decoupled")) continue;
    CAPTURE(which.name);
    Net net(format);
    const auto start = snapshot(net);
    const auto optimizer = which.make();
    optimizer->attach(net);
    train(*optimizer, net, 0, 20);
    for (int k = 0; k < 3; ++k) {
      const auto before = start[k].contiguous().flatten();
      const auto after = net.parameters()[k].detach().contiguous().flatten();
      for (int64_t i = 0; i < before.numel(); i += 7)
        REQUIRE(
            after[i].item<float>() ==
            Approx(by_formula(which, before[i].item<float>(), k, i)).epsilon(1e-5).margin(1e-5));
    }
  }
}

TEST_CASE("the one-pass and the multi-tensor updates agree", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net single, wide;
    for (const auto& item : wide.named_parameters().pairs())
      wide.put(item.first, item.second.detach().to(at::kDouble));
    const auto a = make(), b = make();
    a->attach(single), b->attach(wide);
    for (int step = 0; step < 10; ++step) {
      single.backward(step), wide.backward(step);
      for (auto& parameter : wide.parameters())
        parameter.mutable_grad() = parameter.grad().to(at::kDouble);
      a->step(), b->step();
    }
    for (size_t i = 0; i < 3; ++i)
      CHECK(at::allclose(single.parameters()[i].to(at::kDouble), wide.parameters()[i], 1e-5, 1e-6));
  }
}

TEST_CASE("a step counts the versions of what it writes up", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net net;
    const auto optimizer = make();
    optimizer->attach(net);
    net.backward(0);
    net.parameters()[1].mutable_grad().reset();
    const auto before = net.parameters()[0]._version(), untouched = net.parameters()[1]._version();
    optimizer->step();
    CHECK(net.parameters()[0]._version() > before);
    CHECK(net.parameters()[1]._version() == untouched);
  }
}

TEST_CASE("averages of what a step does not update move too, once", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net net;
    net.parameters()[2].set_requires_grad(false);
    const auto optimizer = make();
    optimizer->attach(net);
    auto weights = net.parameters();
    weights.push_back(wave({4}, 0, 1));  // a buffer
    std::vector<at::Tensor> averages;
    for (const auto& weight : weights) averages.push_back(wave(weight.sizes(), 5, 0.1));
    for (const auto& found_inf : {at::Tensor(), at::zeros({}), at::ones({})}) {
      std::vector<at::Tensor> before;
      for (const auto& average : averages) before.push_back(average.clone());
      net.backward(0);
      optimizer->average_with_next_step(weights, averages, 0.3);
      optimizer->step(found_inf);
      for (size_t i = 2; i < weights.size(); ++i)
        CHECK(averages[i].equal(before[i].lerp(weights[i].detach(), 0.3)));
      const auto moved = averages[3].clone();
      optimizer->step();
      CHECK(averages[3].equal(moved));
    }
  }
}

TEST_CASE("several averages of the same weights follow, each by its own share", "[optimizers]") {
  Net net;
  Sgd optimizer({.lr = 0.1});
  optimizer.attach(net);
  std::vector<at::Tensor> slow, quick;
  for (const auto& weight : net.parameters())
    slow.push_back(at::zeros_like(weight)), quick.push_back(at::zeros_like(weight));
  net.backward(0);
  optimizer.average_with_next_step(net.parameters(), slow, 0.25);
  optimizer.average_with_next_step(net.parameters(), quick, 0.25);
  optimizer.average_with_next_step(net.parameters(), quick, 0.5);
  optimizer.step();
  for (size_t i = 0; i < slow.size(); ++i) {
    CHECK(at::allclose(slow[i], net.parameters()[i] * 0.25));
    CHECK(at::allclose(quick[i], net.parameters()[i] * 0.5));
  }
}

TEST_CASE("an optimizer derived from a built-in one updates in its own way", "[optimizers]") {
  class Frozen : public Sgd {
   public:
    using Sgd::Sgd;

   protected:
    void update(Update& update) override {
      for (auto& parameter : update.parameters) parameter.add_(1);
    }
  };
  Net net;
  Frozen optimizer({.lr = 0.1});
  optimizer.attach(net);
  const auto before = net.parameters()[0].detach().clone();
  net.backward(0);
  optimizer.step();
  CHECK(at::equal(net.parameters()[0].detach(), before + 1));
}

TEST_CASE("a step that fails leaves nothing to the next one", "[optimizers]") {
  class Failing : public Sgd {
   public:
    using Sgd::Sgd;
    bool fails = true;

   protected:
    bool in_one_pass(const ParameterGroup&) const override { return true; }
    UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                         bool first) override {
      if (fails && ++updates_ == 2) throw std::runtime_error("no rule");
      return Sgd::next_rule(group, state, first);
    }

   private:
    int updates_ = 0;
  };
  Net net, other;
  Failing optimizer({.lr = 0.1});
  Sgd plain({.lr = 0.1});
  optimizer.attach(net), plain.attach(other);
  net.backward(0), other.backward(0);
  const auto average = at::zeros_like(net.parameters()[2]);
  optimizer.average_with_next_step({net.parameters()[2]}, {average}, 0.5);
  CHECK_THROWS_WITH(optimizer.step(), "no rule");
  optimizer.fails = false;
  optimizer.step(), plain.step();
  for (size_t i = 0; i < 3; ++i) CHECK(at::equal(net.parameters()[i], other.parameters()[i]));
  CHECK(average.abs().max().item<float>() == 0);
}

TEST_CASE("averages take in the weights that the step leaves", "[optimizers]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net net;
    const auto optimizer = make();
    optimizer->attach(net);
    std::vector<at::Tensor> averages;
    for (const auto& weight : net.parameters())
      averages.push_back(
          wave(weight.sizes(), 5, 0.1)
              .contiguous(weight.dim() == 4 ? format : at::MemoryFormat::Contiguous));
    for (int step = 0; step < 3; ++step) {
      const at::Tensor found_inf = step == 1 ? at::ones({}) : at::zeros({});
      std::vector<at::Tensor> expected;
      for (const auto& average : averages) expected.push_back(average.clone());
      net.backward(step);
      optimizer->average_with_next_step(net.parameters(), averages, 0.3);
      optimizer->step(found_inf);
      for (size_t i = 0; i < 3; ++i)
        CHECK(at::allclose(averages[i], expected[i].lerp(net.parameters()[i].detach(), 0.3), 1e-6,
                           1e-7));
    }
  }
}

TEST_CASE("gradients may have other strides than their parameters", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net plain, mixed(at::MemoryFormat::ChannelsLast);
    const auto a = make(), b = make();
    a->attach(plain), b->attach(mixed);
    for (int step = 0; step < 3; ++step) {
      plain.backward(step), mixed.backward(step, at::MemoryFormat::Contiguous);
      a->step(), b->step();
    }
    for (size_t i = 0; i < 3; ++i)
      CHECK(at::allclose(plain.parameters()[i], mixed.parameters()[i], 1e-6, 1e-7));
  }
}

TEST_CASE("a step with found_inf changes nothing", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net skipping, steady;
    const auto a = make(), b = make();
    a->attach(skipping), b->attach(steady);
    const at::Tensor fine = at::zeros({}), infinite = at::ones({});
    for (int step = 0; step < 6; ++step) {
      if (step == 0 || step == 3) {  // at the very first step too
        const auto before = snapshot(skipping);
        skipping.backward(step);
        for (auto& parameter : skipping.parameters()) parameter.mutable_grad().fill_(INFINITY);
        a->step(infinite);
        CHECK(same_bits(before, snapshot(skipping)));
      }
      skipping.backward(step), steady.backward(step);
      a->step(fine), b->step();
    }
    CHECK(same_bits(snapshot(skipping), snapshot(steady)));
    for (const auto& [key, tensor] : b->state_dict().tensors)
      CHECK(tensor.equal(a->state_dict().tensors.at(key)));
  }
}

namespace {

/// Updates by multi-tensor operations, as on a GPU.
template <class T>
class MultiTensor : public T {
 public:
  using T::T;

  void update_by(const at::Tensor& found_inf, const std::vector<std::string>& kinds) {
    const at::NoGradGuard no_grad;
    const auto& group = this->groups()[0];
    typename T::Update update{.group = group,
                              .parameters = group.parameters,
                              .gradients = this->gradients(),
                              .state = {},
                              .first = false,
                              .found_inf = found_inf};
    const auto state = this->state_dict().tensors;
    for (const auto& kind : kinds) {
      update.state.emplace_back();
      for (const auto& name : group.names)
        update.state.back().push_back(state.at(kind + "." + name));
    }
    this->update(update);
  }
};

template <class T>
void check_skip(const typename T::Params& params, const std::vector<std::string>& kinds) {
  Net skipping, steady;
  MultiTensor<T> a(params), b(params);
  a.attach(skipping), b.attach(steady);
  for (int step = 0; step < 7; ++step) {
    if (step > 0) {
      const auto before = snapshot(skipping);
      skipping.backward(step);
      for (auto& parameter : skipping.parameters()) parameter.mutable_grad().fill_(NAN);
      a.update_by(at::ones({}), kinds);
      CHECK(same_bits(before, snapshot(skipping)));
    }
    skipping.backward(step), steady.backward(step);
    if (step == 0)
      a.step();
    else
      a.update_by(at::zeros({}), kinds);
    b.step();
  }
  for (size_t i = 0; i < 3; ++i)
    CHECK(at::allclose(skipping.parameters()[i], steady.parameters()[i], 1e-6, 1e-7));
}

}  // namespace

TEST_CASE("multi-tensor updates skip on the device where found_inf is 1", "[optimizers]") {
  check_skip<Adam>({}, {"exp_avg", "exp_avg_sq", "step"});
  RmspropParams rmsprop;
  rmsprop.momentum = 0.9, rmsprop.centered = true, rmsprop.weight_decay = 0.01;
  check_skip<Rmsprop>(rmsprop, {"square_avg", "grad_avg", "momentum_buffer"});
  RAdamParams radam;
  radam.weight_decay = 0.01, radam.decoupled_weight_decay = true;
  check_skip<RAdam>(radam, {"exp_avg", "exp_avg_sq", "step"});
  LarsParams lars;
  lars.weight_decay = 0.01;
  check_skip<Lars>(lars, {"momentum_buffer"});
  check_skip<Lamb>({}, {"exp_avg", "exp_avg_sq", "step"});
}

TEST_CASE("norm layers and biases can be spared weight decay", "[optimizers]") {
  auto params = sgd(0.9, 0, false, 0.5);
  params.no_decay_norm_bias = true;
  DecoupledSgdw optimizer(params);
  Net net;
  const auto before = snapshot(net);
  optimizer.attach(net);
  REQUIRE(optimizer.groups().size() == 2);
  CHECK(optimizer.groups()[0].names == std::vector<std::string>{"conv_weight", "fc_weight"});
  CHECK(optimizer.groups()[1].names == std::vector<std::string>{"conv_bias"});
  CHECK(optimizer.groups()[1].weight_decay == 0);
  for (auto& parameter : net.parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
  optimizer.step();
  CHECK(at::allclose(net.parameters()[0], before[0] * 0.5));
  CHECK(net.parameters()[1].equal(before[1]));

  optimizer.set_lr_multiplier(0.25);
  CHECK(optimizer.lr() == Approx(0.025));
  for (const auto& group : optimizer.groups()) CHECK(group.lr.item<float>() == Approx(0.025));
}

TEST_CASE("parameters without a gradient, and frozen ones, are left alone", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net net;
    net.parameters()[2].set_requires_grad(false);
    const auto optimizer = make();
    optimizer->attach(net);
    const auto before = snapshot(net);
    net.backward(0);
    net.parameters()[1].mutable_grad().reset();
    CHECK(optimizer->gradients().size() == 1);
    optimizer->step();
    CHECK_FALSE(net.parameters()[0].equal(before[0]));
    CHECK(net.parameters()[1].equal(before[1]));
    CHECK(net.parameters()[2].equal(before[2]));
    for (const auto& [key, tensor] : optimizer->state_dict().tensors)
      CHECK_THAT(key, Catch::EndsWith(".conv_weight"));
    optimizer->zero_grad();
    CHECK(optimizer->gradients().empty());
  }
}

TEST_CASE("follow keeps the state of what stays and drops the rest", "[optimizers]") {
  Sgd optimizer(sgd(0.9, 0, false));
  Net net;
  optimizer.attach(net);
  optimizer.set_lr_multiplier(0.5);
  train(optimizer, net, 0, 3);
  const auto lr = optimizer.groups()[0].lr;
  const auto kept = optimizer.state_dict().tensors.at("momentum_buffer.conv_weight").clone();
  net.put("fc_weight", at::ones({2, 2}));
  net.drop("conv_bias");
  net.put("gain", at::ones({3}));
  optimizer.follow(net);
  CHECK(optimizer.groups()[0].names ==
        std::vector<std::string>{"conv_weight", "fc_weight", "gain"});
  CHECK(optimizer.groups()[0].lr.is_same(lr));
  const auto state = optimizer.state_dict().tensors;
  CHECK(state.size() == 1);
  CHECK(state.at("momentum_buffer.conv_weight").equal(kept));

  net.backward(3);
  optimizer.step();
  CHECK(optimizer.state_dict().tensors.at("momentum_buffer.gain").sizes() == at::IntArrayRef{3});
}

TEST_CASE("a resumed optimizer goes on with the same bits", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net straight(at::MemoryFormat::ChannelsLast), resumed(at::MemoryFormat::ChannelsLast);
    const auto whole = make(), first = make(), second = make();
    whole->attach(straight), first->attach(resumed);
    train(*whole, straight, 0, 12);
    train(*first, resumed, 0, 5);
    StateDict saved = first->state_dict();
    for (auto& [key, tensor] : saved.tensors)
      tensor = tensor.contiguous().clone();  // as files hold them
    second->attach(resumed);
    second->load_state_dict(saved);
    CHECK(second->lr() == first->lr());
    train(*second, resumed, 5, 12);
    CHECK(same_bits(snapshot(straight), snapshot(resumed)));
  }
}

TEST_CASE("an optimizer says how many numbers of state it keeps", "[optimizers]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    Net net;
    const auto optimizer = make();
    optimizer->attach(net);
    train(*optimizer, net, 0, 1);
    const auto dict = optimizer->state_dict();
    const auto of_weight = [](const auto& item) {
      return item.first.ends_with(".fc_weight") && item.second.dim() > 0;
    };
    CHECK(std::ranges::count_if(dict.tensors, of_weight) == optimizer->state_numbers());
  }
}

TEST_CASE("state that does not fit is refused by name", "[optimizers]") {
  Net net;
  AdamW optimizer(adam(0.9, 0.999, false));
  optimizer.attach(net);
  train(optimizer, net, 0, 1);
  StateDict state = optimizer.state_dict();
  state.tensors["exp_avg.conv_bias"] = at::zeros({9});
  state.tensors["momentum_buffer.fc_weight"] = at::zeros({5, 8});
  state.tensors.erase("step.fc_weight");
  try {
    optimizer.load_state_dict(state);
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(error.problems().size() == 3);
    CHECK_THAT(error.what(), Catch::Contains("exp_avg.conv_bias") && Catch::Contains("[9]") &&
                                 Catch::Contains("momentum_buffer.fc_weight") &&
                                 Catch::Contains("'fc_weight' is incomplete"));
  }
}

namespace {

/// Weights that balance over three ranks, in a layout that is not contiguous.
class WideNet : public Net {
 public:
  WideNet() : Net(at::MemoryFormat::ChannelsLast) {
    for (int i = 0; i < 11; ++i) put("more" + std::to_string(i), wave({40 + i, 8}, i, 0.1));
  }
};

size_t own_bytes(const Optimizer& optimizer) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : optimizer.state_dict().tensors)
    if (!tensor.is_meta()) bytes += tensor.nbytes();
  return bytes;
}

/// What all ranks have together.
StateDict joined(const std::vector<StateDict>& dicts) {
  StateDict all = dicts[0];
  for (const auto& dict : dicts)
    for (const auto& [name, tensor] : dict.tensors)
      if (!tensor.is_meta()) all.tensors[name] = tensor.contiguous().clone();
  return all;
}

}  // namespace

TEST_CASE("ranks that divide the state leave what one leaves, and keep a share of it",
          "[optimizers][ranks]") {
  for (const auto& [name, make] : all_cases) {
    CAPTURE(name);
    WideNet whole, goes_on;
    const auto alone = make(), resumed = make();
    alone->attach(whole);
    train(*alone, whole, 0, 7);
    std::vector<StateDict> dicts(3);
    std::vector<std::map<std::string, int64_t>> holders(3);
    std::vector<size_t> bytes(3);
    std::vector<std::vector<at::Tensor>> weights(3);
    std::vector<at::Tensor> saved;
    test::in_ranks(3, [&](const Ranks& ranks) {
      const auto rank = static_cast<size_t>(ranks.rank());
      WideNet net;
      const auto first = make(), second = make();
      first->attach(net, ranks, Divided::state);
      train(*first, net, 0, 4);
      dicts[rank] = first->state_dict();
      holders[rank] = dicts[rank].holders;
      bytes[rank] = own_bytes(*first);
      if (ranks.first()) saved = snapshot(net);
      ranks.barrier();
      const auto all = joined(dicts);
      second->attach(net, ranks, Divided::state);
      second->load_state_dict(all);
      train(*second, net, 4, 7);
      weights[rank] = snapshot(net);
    });
    for (size_t rank = 0; rank < 3; ++rank) {
      CHECK(same_bits(weights[rank], snapshot(whole)));
      CHECK(holders[rank] == holders[0]);
      CHECK(holders[rank].size() == dicts[rank].tensors.size());
      for (const auto& [key, tensor] : dicts[rank].tensors)
        CHECK(tensor.is_meta() == (holders[rank].at(key) != static_cast<int64_t>(rank)));
      CHECK(static_cast<double>(bytes[rank]) ==
            Approx(static_cast<double>(own_bytes(*alone)) / 3).epsilon(0.1));
    }
    // One process goes on from it.
    for (size_t i = 0; i < saved.size(); ++i) goes_on.parameters()[i].detach().copy_(saved[i]);
    resumed->attach(goes_on);
    resumed->load_state_dict(joined(dicts));
    CHECK(resumed->state_dict().holders.empty());
    train(*resumed, goes_on, 4, 7);
    CHECK(same_bits(snapshot(goes_on), snapshot(whole)));
  }
}

TEST_CASE("divided state follows surgery: what stays keeps its rank", "[optimizers][ranks]") {
  std::vector<std::map<std::string, int64_t>> before(3), after(3);
  test::in_ranks(3, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    WideNet net;
    Sgd optimizer(sgd(0.9, 0, false));
    optimizer.attach(net, ranks, Divided::state);
    train(optimizer, net, 0, 2);
    before[rank] = optimizer.state_dict().holders;
    net.drop("more3");
    net.put("fresh", at::ones({1000}));
    optimizer.follow(net);
    train(optimizer, net, 2, 4);
    after[rank] = optimizer.state_dict().holders;
  });
  for (size_t rank = 0; rank < 3; ++rank) CHECK(after[rank] == after[0]);
  CHECK_FALSE(after[0].contains("momentum_buffer.more3"));
  CHECK(after[0].contains("momentum_buffer.fresh"));
  for (const auto& [key, holder] : before[0])
    if (after[0].contains(key)) CHECK(after[0].at(key) == holder);
}

TEST_CASE("contradicting optimizer parameters are named", "[optimizers]") {
  CHECK(sgd(0.9, 0, true).check().empty());
  CHECK_THAT(sgd(0, 0, true).check(), Catch::Contains("nesterov"));
  CHECK_THAT(sgd(0.9, 0.1, true).check(), Catch::Contains("nesterov"));
  CHECK(adam(0.9, 0.999, false).check().empty());
  CHECK_THAT(adam(0.9, 1, false).check(), Catch::Contains("betas"));
  AdamParams three;
  three.betas = {0.9, 0.99, 0.999};
  CHECK_THAT(three.check(), Catch::Contains("betas"));
  Net empty;
  for (const char* name : {"conv_weight", "conv_bias", "fc_weight"}) empty.drop(name);
  CHECK_THROWS_AS(Sgd(sgd(0, 0, false)).attach(empty), RunError);
}

}  // namespace composer::optimizers_test
