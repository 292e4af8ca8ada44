#include "composer/run/rank_threads.h"

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

TEST_CASE("ranks share what the quota of their container lets run", "[ranks]") {
  MachineLimits limits;
  limits.allowed_processors = 64;
  RankEnvironment alone, of_eight, bound;
  of_eight.size = of_eight.local_size = bound.size = bound.local_size = 8;
  bound.has_own_cores = true;
  CHECK(cores_of_rank(alone, limits) == 64);
  CHECK(cores_of_rank(of_eight, limits) == 8);
  CHECK(quota_text({48, 16}, alone, limits).empty());

  limits.processor_quota = 20.5;
  CHECK(cores_of_rank(alone, limits) == 20);
  CHECK(cores_of_rank(of_eight, limits) == 2);
  CHECK(quota_text({1, 1}, of_eight, limits) ==
        "processors: the quota of the container is the time of 20.5 of 64: each of 8 ranks has 1 "
        "compute and 1 loader threads");
  limits.processor_quota = 0.5;
  CHECK(cores_of_rank(of_eight, limits) == 1);

  limits.allowed_processors = 8;  // of this rank's own
  limits.processor_quota = 64;
  CHECK(cores_of_rank(bound, limits) == 8);
  CHECK(quota_text({6, 2}, bound, limits).empty());
  limits.processor_quota = 32;
  CHECK(cores_of_rank(bound, limits) == 4);
  CHECK_FALSE(quota_text({3, 1}, bound, limits).empty());

  limits.allowed_processors = 2048;
  limits.processor_quota.reset();
  CHECK(cores_of_rank(of_eight, limits) == 256);
}

}  // namespace composer::rank_threads_test
