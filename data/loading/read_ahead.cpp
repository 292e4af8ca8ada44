#include "data/loading/read_ahead.h"

#include <cmath>

#include "base/clock.h"
#include "base/remote/leaving.h"
#include "base/several_threads.h"

namespace composer {
namespace {

std::atomic<size_t> g_readers{0};  // threads of all pools

}  // namespace

ReaderThreads::ReaderThreads(std::mutex& lock, size_t most, std::function<bool(Lock&)> read,
                             std::chrono::milliseconds idle)
    : lock_(lock), most_(most), read_(std::move(read)), idle_time_(idle) {}

ReaderThreads::~ReaderThreads() {
  leave();
  for (auto& reader : readers_) reader.thread.join();
}

void ReaderThreads::leave() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  more_.notify_all();
}

void ReaderThreads::wake_one() {
  if (working_ == 0) add();
  if (idle_ > 0) more_.notify_one();
}

void ReaderThreads::wake_all() {
  if (working_ == 0) add();
  if (idle_ > 0) more_.notify_all();
}

/// Where the system gives no more threads, adds none for a second.
void ReaderThreads::add() {
  if (stopping_ || working_ >= most_ || steady_seconds() < refused_until_) return;
  if (g_readers.fetch_add(1) >= kMostReaders && working_ > 0) {
    --g_readers;
    return;
  }
  readers_.remove_if([](Reader& reader) {
    if (reader.left) reader.thread.join();
    return reader.left;
  });
  try {
    Reader& reader = readers_.emplace_back();
    reader.thread = std::thread([this, &reader, number = working_] {
      set_thread_name("reader " + std::to_string(number));
      work(reader);
    });
    ++working_;
  } catch (const std::exception&) {
    if (!readers_.empty() && !readers_.back().thread.joinable()) readers_.pop_back();
    --g_readers;
    refused_until_ = steady_seconds() + 1;
  }
}

bool ReaderThreads::read(Lock& lock) {
  try {
    return read_(lock);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    return false;
  }
}

void ReaderThreads::work(Reader& self) {
  const LeaveWhen leaving(stopping_);
  Lock lock(lock_);
  bool timed_out = false;
  while (!stopping_) {
    // Each thread adds one per read: the number doubles in the time of a read.
    if (idle_ == 0 && hurried()) add();
    if (read(lock)) {
      timed_out = false;
      continue;
    }
    hurried_.store(false, std::memory_order_relaxed);
    if (stopping_ || timed_out) break;
    ++idle_;
    timed_out = more_.wait_for(lock, idle_time_) == std::cv_status::timeout;
    --idle_;
  }
  self.left = true;
  --working_;
  --g_readers;
}

EpochSlice slice_of(int64_t batch, int64_t epoch_samples, const LoaderOptions& options) {
  const int64_t begin = batch * options.batch_size;
  const int64_t samples = std::min(options.batch_size, epoch_samples - begin);
  const int64_t first = share_begin(samples, options.rank, options.world_size);
  const int64_t end = share_begin(samples, options.rank + 1, options.world_size);
  return {begin + first, {first, end - first, samples, options.world_size}};
}

SampleCursor::SampleCursor(const Sampler& sampler, const LoaderOptions& options,
                           int64_t batches_per_epoch, bool all_epochs)
    : sampler_(sampler), options_(options), batches_(batches_per_epoch), all_epochs_(all_epochs) {}

int64_t SampleCursor::restart(int64_t epoch, int64_t batch) {
  constexpr int64_t kMostSamples = int64_t{1} << 44;  // between restarts
  sequence_ = ++restarts_ * kMostSamples;
  epoch_ = batch == batches_ ? epoch + 1 : epoch;
  batch_ = batch == batches_ ? 0 : batch;
  slice_ = slice_of(batch_, sampler_.size(), options_);
  offset_ = 0;
  order_epoch_ = -1;  // a given order may have been replaced
  last_epoch_ = all_epochs_ ? std::numeric_limits<int64_t>::max() : epoch;
  return sequence_;
}

bool SampleCursor::ask(int64_t epoch) {
  if (epoch <= last_epoch_) return false;
  last_epoch_ = epoch;
  return true;
}

void SampleCursor::pass(int64_t sequence) {
  int64_t seen = passed_.load();
  while (seen < sequence && !passed_.compare_exchange_weak(seen, sequence)) {
  }
}

/// Goes on to the batch of the next sample; false where that sample's epoch is not wanted.
bool SampleCursor::find_batch() {
  while (offset_ == slice_.of_batch.own && epoch_ <= last_epoch_) {
    if (++batch_ == batches_) ++epoch_, batch_ = 0;
    slice_ = slice_of(batch_, sampler_.size(), options_);
    offset_ = 0;
  }
  return epoch_ <= last_epoch_;
}

void SampleCursor::skip_to(int64_t sequence) {
  while (sequence_ < sequence && find_batch()) {
    const int64_t step = std::min(sequence - sequence_, slice_.of_batch.own - offset_);
    offset_ += step, sequence_ += step;
  }
}

std::optional<SampleCursor::Next> SampleCursor::next() {
  skip_to(passed());
  if (!find_batch()) return std::nullopt;
  if (order_epoch_ != epoch_) {
    order_ = sampler_.epoch(epoch_);
    order_epoch_ = epoch_;
  }
  if (!order_) return std::nullopt;
  const int64_t position = slice_.first + offset_++;
  return Next{sequence_++, order_(position)};
}

double moved_wait(double mean, double wait, const ReadAheadLimits& limits, int weight) {
  return mean + (std::clamp(wait, 0.0, 4 * std::abs(limits.quick)) - mean) / weight;
}

std::unique_ptr<ReadAhead> make_read_ahead(const ReadAheadPlan& plan) {
  switch (plan.source.arrival()) {
    case Arrival::by_sample:
      return make_samples_ahead(plan);
    case Arrival::by_range:
      return make_ranges_ahead(plan);
    case Arrival::in_memory:
      break;
  }
  return nullptr;
}

}  // namespace composer
