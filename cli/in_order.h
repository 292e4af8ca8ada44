// Processes samples on several threads and reports the results in the samples' order.
#pragma once

#include <cstdint>
#include <functional>

namespace composer {

/// Prints the result of a sample; called after the reports of all earlier samples.
using SampleReport = std::function<void()>;

/// The work of one thread: called with ascending indices, none twice.
using SampleWorker = std::function<SampleReport(int64_t index)>;

/// Calls make_worker once on each thread. The workers share the indices 0 .. count-1; the calling
/// thread runs each SampleReport in the order of the indices. The number of pending results is
/// bounded. The error of the lowest failing index is rethrown after the earlier reports ran and all
/// threads ended.
void in_order(int64_t count, int threads, const std::function<SampleWorker()>& make_worker);

}  // namespace composer
