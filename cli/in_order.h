// Work on many samples by several threads, its results in the samples' order.
#pragma once

#include <cstdint>
#include <functional>

namespace composer {

/// What is to be printed about a sample, once those before it were printed.
using SampleReport = std::function<void()>;

/// One thread's work: called with ascending indices, none twice.
using SampleWorker = std::function<SampleReport(int64_t index)>;

/// Calls make_worker once a thread, then its result for the indices 0 .. count-1, which the threads
/// take in turn; and each SampleReport, in the order of the indices, on the calling thread. No more
/// than a bounded number of results wait. The error of the lowest index that throws is thrown
/// again, after all threads have ended and what lies before it was reported.
void in_order(int64_t count, int threads, const std::function<SampleWorker()>& make_worker);

}  // namespace composer
