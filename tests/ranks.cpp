#include "tests/ranks.h"

#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "composer/distributed/process_group.h"
#include "composer/error.h"

namespace composer::test {

void in_ranks(int64_t size, const std::function<void(const Ranks&)>& body, double timeout_seconds) {
  // LibTorch's record of collectives is one a process and is not made for several ranks in it.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::exception_ptr error, peer_error;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Ranks ranks;
        if (size > 1) {
          Place place;
          place.rank = place.local_rank = rank, place.size = place.local_size = size;
          ranks = Ranks(join_process_group(store, place, at::kCPU, timeout_seconds));
        }
        body(ranks);
      } catch (const PeerError&) {
        const std::lock_guard lock(mutex);
        if (!peer_error) peer_error = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  if (peer_error) std::rethrow_exception(peer_error);
}

}  // namespace composer::test
