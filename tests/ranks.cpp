#include "tests/ranks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "base/error.h"
#include "nn/distributed/process_group.h"

namespace composer::test {
namespace {

/// No test computes so long; a wait for another rank ends by itself before.
constexpr std::chrono::minutes longest{10};

}  // namespace

void in_ranks(int64_t size, const std::function<void(const Ranks&)>& body, double timeout_seconds) {
  // LibTorch's record of collectives is one a process and is not made for several ranks in it.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<bool> has_ended(static_cast<size_t>(size));
  std::exception_ptr error, peer_error;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Ranks ranks;
        if (size > 1) {
          RankEnvironment environment;
          environment.rank = environment.local_rank = rank,
          environment.size = environment.local_size = size;
          ranks = Ranks(join_process_group(store, environment, at::kCPU, timeout_seconds));
        }
        body(ranks);
      } catch (const LostRankError&) {
        const std::lock_guard lock(mutex);
        if (!peer_error) peer_error = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      has_ended[static_cast<size_t>(rank)] = true;
      ended.notify_all();
    });
  {
    std::unique_lock lock(mutex);
    const auto all = [&] { return std::ranges::find(has_ended, false) == has_ended.end(); };
    if (!ended.wait_for(lock, longest, all)) {
      std::cerr << "in_ranks: not ended after " << longest.count() << " minutes: ranks";
      for (size_t rank = 0; rank < has_ended.size(); ++rank)
        if (!has_ended[rank]) std::cerr << ' ' << rank;
      std::cerr << " of " << size << '\n';
      std::abort();
    }
  }
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  if (peer_error) std::rethrow_exception(peer_error);
}

}  // namespace composer::test
