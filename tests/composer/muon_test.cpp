#include "nn/optimization/muon.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nn/network/layer.h"
#include "tests/composer/wave.h"
#include "tests/gpu.h"
#include "tests/ranks.h"
#include "tests/vectors.h"

namespace composer::muon_test {

namespace {

class Net : public torch::nn::Module {
 public:
  explicit Net(at::MemoryFormat format = at::MemoryFormat::Contiguous,
               at::Device device = at::kCPU) {
    int k = 0;
    const auto put = [&](const char* name, at::IntArrayRef shape) {
      auto tensor = wave(shape, k++, 0.1).to(device);
      register_parameter(name, shape.size() == 4 ? tensor.contiguous(format) : tensor);
    };
    put("conv", {8, 4, 3, 3}), put("twin", {8, 4, 3, 3}), put("tall", {16, 3, 2, 2});
    put("bias", {8}), put("head", {5, 8});
  }

  void backward(int step) {
    int k = 0;
    for (auto& parameter : parameters())
      parameter.mutable_grad() =
          at::empty_like(parameter).detach().copy_(wave(parameter.sizes(), 3 * step + k++, 0.37));
  }
};

void train(Muon& optimizer, Net& net, int from, int to, const at::Tensor& found_inf = {}) {
  for (int step = from; step < to; ++step) {
    net.backward(step);
    optimizer.set_lr_multiplier(1 - step / 40.0);
    optimizer.step(found_inf);
  }
}

std::vector<at::Tensor> snapshot(const Net& net) {
  std::vector<at::Tensor> copies;
  for (const auto& parameter : net.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

void check_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i].equal(b[i]));
}

MuonParams params_of(const std::string& name) {
  MuonParams params;
  if (name == "no_nesterov") params.nesterov = false, params.steps = 5;
  if (name == "no_rescaling") params.rescale_weights = false, params.momentum = 0.9;
  if (name == "head") params.head_lr = 0.3, params.sgd_weight_decay = 0.02;
  return params;
}

/// expected: what muon_reference.py prints.
void check_steps(const nlohmann::json& expected, at::MemoryFormat format) {
  for (const auto device : test::devices())
    for (const char* name : {"plain", "no_nesterov", "no_rescaling", "head"}) {
      CAPTURE(name, device.str());
      Net net(format, device);
      Muon optimizer(params_of(name));
      optimizer.attach(net);
      train(optimizer, net, 0, 12);
      for (const auto& item : net.named_parameters()) {
        CAPTURE(item.key());
        const auto values = at::tensor(expected.at(name).at(item.key()).get<std::vector<float>>());
        const auto ours = item.value().detach().cpu().contiguous().flatten();
        // bfloat16 has 8 bits. These gradients have rank two; in the other directions five steps
        // make 3.4445^5 of its rounding, which is as large as a weight.
        const bool rough = !device.is_cpu() && item.value().dim() == 4;
        if (rough && params_of(name).steps >= 5) continue;
        CHECK(at::allclose(ours, values, rough ? 2e-2 : 1e-4, rough ? 5e-2 : 2e-5));
      }
    }
}

}  // namespace

TEST_CASE("the iteration keeps singular vectors and evens out singular values", "[muon]") {
  at::manual_seed(1);
  for (const auto& shape : std::vector<std::vector<int64_t>>{{12, 40}, {40, 12}, {3, 16, 16}}) {
    const auto matrices = at::randn(shape);
    const auto result = orthogonalize(matrices, 5, MuonParams{}.coefficients);
    REQUIRE(result.sizes() == matrices.sizes());
    const auto [u, s, v] = at::linalg_svd(matrices, /*full_matrices=*/false);
    const auto inside = u.mT().matmul(result).matmul(v.mT());
    const auto values = at::diagonal(inside, 0, -2, -1);
    CHECK(at::allclose(inside, at::diag_embed(values), 1e-3, 1e-4));
    const auto large = values.masked_select(s > 0.1 * s.amax(-1, true));
    CHECK(large.min().item<float>() > 0.6);
    CHECK(large.max().item<float>() < 1.3);
  }
}

TEST_CASE("one step of the iteration on a diagonal matrix is its polynomial", "[muon]") {
  const auto x = at::diag(at::tensor({3.f, 4.f}));  // of norm 5
  const auto coefficients = GENERATE(MuonParams{}.coefficients, std::vector<double>{2, -1.5, 0.5});
  const auto expected = [&](double v) {
    return coefficients[0] * v + coefficients[1] * std::pow(v, 3) +
           coefficients[2] * std::pow(v, 5);
  };
  const auto result = orthogonalize(x, 1, coefficients);
  CHECK(result[0][0].item<double>() == Approx(expected(0.6)).epsilon(1e-5));
  CHECK(result[1][1].item<double>() == Approx(expected(0.8)).epsilon(1e-5));
  CHECK(result[0][1].item<double>() == 0);
}

TEST_CASE("muon's iteration has three coefficients", "[muon]") {
  CHECK(MuonParams{.coefficients = {1, 2}}.check() == "coefficients: must be three numbers");
  CHECK(MuonParams{}.check().empty());
}

TEST_CASE("muon takes the reference's steps", "[muon][gpu][parity]") {
  static const auto expected = nlohmann::json::parse(test::recorded("muon.json"));
  check_steps(expected, GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast));
}

TEST_CASE("muon takes the reference's steps with the PyTorch that is installed",
          "[muon][parity][peer][recorded][slow]") {
  if (!test::has_python()) {
    WARN("skipped: no " << test::python());
    return;
  }
  const auto answer = test::output_of("tests/composer/muon_reference.py");
  const auto expected = nlohmann::json::parse(answer);
  check_steps(expected, at::MemoryFormat::Contiguous);
  check_steps(expected, at::MemoryFormat::ChannelsLast);
  test::record("muon.json", answer);
}

TEST_CASE("convolution weights, the head and the rest have their own learning rates", "[muon]") {
  MuonParams params = params_of("head");
  Muon optimizer(params);
  Net net;
  optimizer.attach(net);
  optimizer.set_lr_multiplier(0.5);
  CHECK(optimizer.lr() == Approx(0.12));
  const auto& groups = optimizer.groups();
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].names == std::vector<std::string>{"conv", "twin", "tall"});
  CHECK(groups[0].weight_decay == 0);
  CHECK(groups[1].names == std::vector<std::string>{"bias"});
  CHECK(groups[1].lr.item<double>() == Approx(0.05));
  CHECK(groups[1].weight_decay == Approx(0.02));
  CHECK(groups[2].names == std::vector<std::string>{"head"});
  CHECK(groups[2].lr.item<double>() == Approx(0.15));
  CHECK(groups[2].initial_lr * groups[2].weight_decay == Approx(0.1 * 0.02));
}

TEST_CASE("a weight has the norm sqrt(output channels) before its step", "[muon]") {
  Net net;
  Muon optimizer(MuonParams{});
  optimizer.attach(net);
  net.backward(0);
  optimizer.set_lr_multiplier(0);
  optimizer.step();
  CHECK(net.parameters()[0].norm().item<double>() == Approx(std::sqrt(8)));
  CHECK(net.parameters()[2].norm().item<double>() == Approx(std::sqrt(16)));
}

TEST_CASE("muon: a step with found_inf changes nothing", "[muon][gpu]") {
  for (const auto device : test::devices()) {
    CAPTURE(device.str());
    const auto format = at::MemoryFormat::Contiguous;
    Net skipping(format, device), steady(format, device);
    Muon a(MuonParams{}), b(MuonParams{});
    a.attach(skipping), b.attach(steady);
    const auto fine = at::zeros({}, device), infinite = at::ones({}, device);
    for (int step = 0; step < 6; ++step) {
      if (step == 0 || step == 3) {
        const auto before = snapshot(skipping);
        skipping.backward(step);
        for (auto& parameter : skipping.parameters())
          parameter.mutable_grad().fill_(step == 0 ? INFINITY : NAN);
        a.step(infinite);
        check_same(before, snapshot(skipping));
      }
      train(a, skipping, step, step + 1, fine);
      train(b, steady, step, step + 1);
    }
    check_same(snapshot(skipping), snapshot(steady));
    for (const auto& [key, tensor] : b.state_dict().tensors)
      CHECK(tensor.equal(a.state_dict().tensors.at(key)));
  }
}

TEST_CASE("muon: a resumed optimizer goes on with the same bits", "[muon][gpu]") {
  for (const auto device : test::devices()) {
    const auto format = at::MemoryFormat::ChannelsLast;
    Net straight(format, device), resumed(format, device);
    Muon whole(MuonParams{}), first(MuonParams{}), second(MuonParams{});
    whole.attach(straight), first.attach(resumed);
    train(whole, straight, 0, 10);
    train(first, resumed, 0, 4);
    auto saved = first.state_dict();
    CHECK(saved.tensors.size() == 5);
    for (auto& [key, tensor] : saved.tensors) tensor = tensor.cpu().contiguous().clone();
    second.attach(resumed);
    second.load_state_dict(saved);
    train(second, resumed, 4, 10);
    check_same(snapshot(straight), snapshot(resumed));
  }
}

TEST_CASE("muon leaves alone what has no gradient, and trains without SGD's momentum", "[muon]") {
  Net net;
  net.parameters()[0].set_requires_grad(false);
  MuonParams params;
  params.sgd_momentum = 0;
  Muon optimizer(params);
  optimizer.attach(net);
  const auto before = snapshot(net);
  net.backward(0);
  net.parameters()[1].mutable_grad().reset();
  optimizer.step();
  const auto after = snapshot(net);
  CHECK(after[0].equal(before[0]));
  CHECK(after[1].equal(before[1]));
  CHECK_FALSE(after[2].equal(before[2]));
  CHECK(at::allclose(after[3], before[3] - 0.1 * net.parameters()[3].grad()));
}

TEST_CASE("large matrices are shared out evenly among ranks, small ones are not", "[muon][ranks]") {
  using Owners = std::vector<std::optional<int64_t>>;
  const std::vector<std::pair<int64_t, int64_t>> matrices{{64, 4000},  {128, 128},  {512, 4608},
                                                          {256, 2304}, {512, 4608}, {4000, 127}};
  CHECK((share_out(matrices, 1) == Owners(6)));
  CHECK((share_out(matrices, 2) == Owners{{}, 1, 0, 0, 1, {}}));
  CHECK((share_out(matrices, 8) == Owners{{}, 3, 0, 2, 1, {}}));
}

TEST_CASE("ranks that share out the iteration step as one does", "[muon][ranks]") {
  struct Wide : torch::nn::Module {
    explicit Wide(at::MemoryFormat format) {
      int k = 0;
      const auto put = [&](const char* name, at::IntArrayRef shape) {
        register_parameter(name, wave(shape, k++, 0.1).contiguous(format));
      };
      put("a", {128, 16, 3, 3}), put("b", {136, 32, 2, 2}), put("c", {128, 16, 3, 3});
      put("small", {8, 4, 3, 3});
    }
    void backward(int step) {
      int k = 0;
      for (auto& parameter : parameters())
        parameter.mutable_grad() =
            at::empty_like(parameter).detach().copy_(wave(parameter.sizes(), 3 * step + k++, 0.37));
    }
  };
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const auto divided = GENERATE(Divided::nothing, Divided::state);
  const auto trained = [&](const Ranks& ranks) {
    Wide net(format);
    Muon optimizer({});
    optimizer.attach(net, ranks, divided);
    for (int step = 0; step < 3; ++step) {
      net.backward(step);
      optimizer.step();
    }
    std::vector<at::Tensor> weights;
    for (const auto& parameter : net.parameters()) weights.push_back(parameter.detach());
    return weights;
  };
  const auto alone = trained({});
  std::vector<std::vector<at::Tensor>> all(3);
  test::in_ranks(
      3, [&](const Ranks& ranks) { all[static_cast<size_t>(ranks.rank())] = trained(ranks); });
  for (const auto& weights : all) {
    check_same(weights, all[0]);
    for (size_t i = 0; i < alone.size(); ++i) CHECK(at::allclose(weights[i], alone[i], 1e-4, 1e-6));
  }
}

}  // namespace composer::muon_test
