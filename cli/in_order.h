// Work on many samples by several threads, its results in the samples' order.
#pragma once

#include <cstdint>
#include <functional>

namespace composer {

/// What is to be printed about a sample, once those before it were printed.
using Report = std::function<void()>;

/// One thread's work: called with ascending indices, none twice.
using Worker = std::function<Report(int64_t index)>;

/// Calls make_worker once a thread, then its result for the indices 0 .. count-1, which the threads
/// take in turn; and each Report, in the order of the indices, on the calling thread. No more than
/// a bounded number of results wait. The error of the lowest index that throws is thrown again,
/// after all threads have ended and what lies before it was reported.
void in_order(int64_t count, int threads, const std::function<Worker()>& make_worker);

/// threads, or where that is 0 the number of processors; at least 1.
int thread_count(int threads);

}  // namespace composer
