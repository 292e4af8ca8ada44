#include "composer/rank_threads.h"

#include <catch2/catch.hpp>

namespace composer::rank_threads_test {

TEST_CASE("the threads of a rank fit its cores", "[ranks]") {
  for (int64_t cores = 1; cores <= 64; ++cores)
    for (const int64_t workers : {0, 1, 8, 64})
      for (const bool gpu : {false, true}) {
        const auto threads = share_cores(cores, workers, gpu);
        CHECK(threads.compute >= 1);
        CHECK(threads.loader <= workers);
        CHECK(threads.compute + threads.loader == cores);
      }
  CHECK(share_cores(8, 8, /*gpu=*/true) == RankThreads{1, 7});
  CHECK(share_cores(8, 8, /*gpu=*/false) == RankThreads{6, 2});
  CHECK(share_cores(2, 8, /*gpu=*/false) == RankThreads{1, 1});
  CHECK(share_cores(1, 8, /*gpu=*/true) == RankThreads{1, 0});
}

}  // namespace composer::rank_threads_test
