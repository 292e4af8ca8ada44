#include "nn/distributed/ranks.h"

#include <ATen/record_function.h>

#include <catch2/catch.hpp>
#include <mutex>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "nn/distributed/process_group.h"
#include "nn/network/gradient_sync.h"
#include "tests/ranks.h"

namespace composer::ranks_test {

using test::in_ranks;

namespace {

std::mutex checking;

}  // namespace

TEST_CASE("a rank alone answers itself", "[ranks]") {
  const Ranks ranks;
  CHECK(ranks.rank() == 0);
  CHECK(ranks.alone());
  CHECK(ranks.first());
  CHECK(ranks.sum(3) == 3);
  CHECK(ranks.gather(std::string("a")) == std::vector<std::string>{"a"});
  CHECK(ranks.broadcast(2.5) == 2.5);
  CHECK(ranks.all(true));
  CHECK_FALSE(ranks.any(false));
}

TEST_CASE("ranks sum, broadcast, gather and agree", "[ranks]") {
  in_ranks(3, [](const Ranks& ranks) {
    const auto rank = ranks.rank();
    const auto numbers = at::full({2, 2}, static_cast<double>(rank + 1), at::kDouble);
    ranks.sum(numbers);
    const auto sent = at::full({3}, rank, at::kLong);
    ranks.broadcast(sent, 2);
    const auto texts = ranks.gather(std::string(static_cast<size_t>(rank), 'x'));
    const auto total = ranks.sum(rank);
    const auto rows = ranks.gather(at::full({2}, rank, at::kLong));
    const auto text = ranks.broadcast(rank == 1 ? "said by 1" : "", 1);
    const bool all = ranks.all(rank < 2), any = ranks.any(rank == 2), none = ranks.any(false);
    ranks.barrier();
    const std::lock_guard lock(checking);
    CHECK(ranks.size() == 3);
    CHECK(at::equal(numbers, at::full({2, 2}, 6.0, at::kDouble)));
    CHECK(at::equal(sent, at::full({3}, 2, at::kLong)));
    CHECK(texts == std::vector<std::string>{"", "x", "xx"});
    CHECK(total == 3);
    CHECK(at::equal(rows, at::arange(3).unsqueeze(1).expand({3, 2})));
    CHECK(text == "said by 1");
    CHECK_FALSE(all);
    CHECK(any);
    CHECK_FALSE(none);
  });
}

TEST_CASE("only what comes of other ranks is a LostRankError", "[ranks]") {
  CHECK_THROWS_AS(with_other_ranks([] { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_THROWS_AS(with_other_ranks([] { throw std::out_of_range("at"); }), std::out_of_range);
  CHECK_THROWS_AS(with_other_ranks([] { throw std::runtime_error("closed"); }), LostRankError);
}

TEST_CASE("a rank that ends is a LostRankError for the others", "[ranks]") {
  bool told = false;
  const auto run = [&] {
    in_ranks(2, [&](const Ranks& ranks) {
      if (ranks.first()) throw RunError("the disk is full");
      try {
        ranks.barrier();
      } catch (const LostRankError&) {
        told = true;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH(run(), "the disk is full");
  CHECK(told);
}

TEST_CASE("gradients are summed over ranks after the last microbatch", "[ranks]") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  in_ranks(2, [&](const Ranks& ranks) {
    const auto weight = at::ones({3, 2}).requires_grad_(), bias = at::zeros({2}).requires_grad_();
    const std::vector<at::Tensor> parameters{weight, bias};
    GradientSync sync(ranks, {.dtype = dtype});
    for (int step = 0; step < 3; ++step) {
      weight.mutable_grad().reset(), bias.mutable_grad().reset();
      for (const bool last : {false, true}) {
        const auto input = at::full({1, 3}, static_cast<float>(ranks.rank() + 1));
        const auto loss = (at::matmul(input, weight) + bias).sum();
        sync.before_backward(parameters, loss, last);
        loss.backward();
        sync.after_backward();
      }
      const std::lock_guard lock(checking);
      CHECK(at::equal(weight.grad(), at::full({3, 2}, 6.f)));
      CHECK(at::equal(bias.grad(), at::full({2}, 4.f)));
      CHECK(sync.bytes() == (step + 1) * 8 * (dtype == at::kFloat ? 4 : 2));
    }
  });
}

namespace {

thread_local std::vector<std::string> happened;

void note_sum(const at::RecordFunction& range) {
  if (std::string_view(range.name()) == "gradient sum") happened.emplace_back("sum");
}

}  // namespace

TEST_CASE("sums of gradients begin while the backward pass goes on", "[ranks]") {
  in_ranks(2, [](const Ranks& ranks) {
    const auto early = at::ones({4}).requires_grad_(), late = at::ones({4}).requires_grad_();
    early.register_hook([](const at::Tensor&) { happened.emplace_back("gradient of early"); });
    const auto listener = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& range)
                                       -> std::unique_ptr<at::ObserverContext> {
          note_sum(range);
          return nullptr;
        }).scopes({at::RecordScope::USER_SCOPE}));
    GradientSync sync(ranks, {.bucket_mb = 1e-6});  // each parameter alone
    const auto loss = ((early * 2) * late).sum();
    sync.before_backward({early, late}, loss, true);
    loss.backward();
    sync.after_backward();
    at::removeCallback(listener);
    const std::lock_guard lock(checking);
    CHECK(happened == std::vector<std::string>{"sum", "gradient of early", "sum"});
    happened.clear();
  });
}

TEST_CASE("parameters that a pass leaves out without saying so are an error", "[ranks]") {
  const auto run = [] {
    in_ranks(2, [](const Ranks& ranks) {
      const auto a = at::ones({2}).requires_grad_(), b = at::ones({2}).requires_grad_();
      GradientSync sync(ranks, {});
      const auto loss = a.sum();
      sync.before_backward({a, b}, loss, true);
      loss.backward();
      sync.after_backward();
    });
  };
  CHECK_THROWS_WITH(run(), Catch::Contains("took no part in the backward pass"));
}

TEST_CASE("parameters that a pass leaves out keep no gradient, or another rank's", "[ranks]") {
  in_ranks(2, [&](const Ranks& ranks) {
    const auto a = at::ones({2}).requires_grad_(), b = at::ones({2}).requires_grad_(),
               c = at::ones({2}).requires_grad_();
    GradientSync sync(ranks, {.find_unused = true});
    for (int step = 0; step < 2; ++step) {
      for (const auto& parameter : {a, b, c}) parameter.mutable_grad().reset();
      const auto loss = (ranks.first() ? a + b : a).sum();
      sync.before_backward({a, b, c}, loss, true);
      loss.backward();
      sync.after_backward();
      const std::lock_guard lock(checking);
      CHECK(at::equal(a.grad(), at::full({2}, 2.f)));
      CHECK(at::equal(b.grad(), at::full({2}, 1.f)));
      CHECK_FALSE(c.grad().defined());
    }
  });
}

}  // namespace composer::ranks_test
