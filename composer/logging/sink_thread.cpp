#include "composer/logging/sink_thread.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace composer {
namespace {

constexpr double progress_interval = 0.1, farewell_seconds = 2;

/// The number of queued bytes above which the sink is woken.
constexpr size_t much = 1 << 20;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

size_t bytes_of(const SinkThread::Item& item) {
  constexpr size_t overhead = 128, value_overhead = 64;
  size_t bytes = overhead;
  if (const auto* record = std::get_if<std::shared_ptr<const Record>>(&item))
    for (const auto& value : (*record)->values) bytes += value_overhead + value.first.size();
  if (const auto* pictures = std::get_if<std::shared_ptr<const ImageRecord>>(&item))
    for (const auto& image : (*pictures)->images) bytes += image.pixels.size();
  if (const auto* spread = std::get_if<std::shared_ptr<const HistogramRecord>>(&item))
    bytes += (*spread)->counts.size() * sizeof(double);
  return bytes;
}

/// Whether the item holds values, which would be missing if it were dropped.
bool counts(const SinkThread::Item& item) {
  return std::holds_alternative<std::shared_ptr<const Record>>(item) ||
         std::holds_alternative<std::shared_ptr<const ImageRecord>>(item) ||
         std::holds_alternative<std::shared_ptr<const HistogramRecord>>(item);
}

}  // namespace

/// Outlives the SinkThread if the sink never answers.
struct SinkThread::Shared {
  Shared(std::shared_ptr<LogSink> sink, Limits limits)
      : sink(std::move(sink)), name(this->sink->name()), limits(limits) {}

  void serve();
  void handle(const Item& item);
  void open(bool last);
  bool has_to_wait();
  void report(const std::exception& error);

  const std::shared_ptr<LogSink> sink;
  const std::string name;
  const Limits limits;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> waiting;
  size_t bytes = 0;
  int64_t unfinished = 0;  ///< items that are queued or being handled
  int64_t missing = 0;     ///< records
  bool caught_up = true;   ///< the queue has been empty since the last wait()
  bool ending = false;
  std::exception_ptr refusal;  ///< the UserError of open()

  // The thread's own.
  std::optional<RunInfo> unopened;
  bool opened = false;
  bool gave_up = false;  ///< open() will not be tried again
  bool reported = false;
};

SinkThread::SinkThread(std::shared_ptr<LogSink> sink, Limits limits)
    : shared_(std::make_shared<Shared>(std::move(sink), limits)),
      thread_([shared = shared_] { shared->serve(); }) {}

SinkThread::~SinkThread() {
  put(Stop{});
  try {
    wait(steady_seconds() + (behind_ ? 0 : farewell_seconds), /*patient=*/true);
  } catch (const UserError& refusal) {
    log::warn(shared_->name + ": " + refusal.what());
  }
  std::unique_lock lock(shared_->mutex);
  const bool over = shared_->unfinished == 0;
  const auto missing = shared_->missing + std::ranges::count_if(shared_->waiting, counts);
  lock.unlock();
  if (missing > 0)
    log::warn(shared_->name + ": " + std::to_string(missing) + " records are missing");
  if (over)
    thread_.join();
  else
    thread_.detach();
}

bool SinkThread::is_told_of(const Progress& progress) {
  const double now = steady_seconds();
  if (progress.phase == phase_ && now - told_ < progress_interval) return false;
  phase_ = progress.phase, told_ = now;
  return true;
}

void SinkThread::put(Item item) {
  const auto* progress = std::get_if<Progress>(&item);
  const bool new_phase = progress != nullptr && progress->phase != phase_;
  if (progress != nullptr && !is_told_of(*progress)) return;
  const size_t bytes = bytes_of(item);
  const bool must = !counts(item) && progress == nullptr;
  bool many = new_phase;
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::holds_alternative<Flush>(item) && !shared_->waiting.empty() &&
        std::holds_alternative<Flush>(shared_->waiting.back()))
      return;
    if (!must && shared_->bytes + bytes > shared_->limits.bytes) {
      shared_->missing += counts(item) ? 1 : 0;
      return;
    }
    if (std::holds_alternative<RunEnd>(item) || std::holds_alternative<Stop>(item))
      shared_->ending = true;
    shared_->waiting.push_back(std::move(item));
    ++shared_->unfinished;
    shared_->bytes += bytes;
    many = many || shared_->bytes > much;
  }
  if (many) wake();
}

void SinkThread::give(const Item& item, LogSink& sink) {
  std::visit(
      Overloaded{
          [&](const std::shared_ptr<const Record>& record) { sink.write(*record); },
          [&](const std::shared_ptr<const ImageRecord>& images) { sink.write_images(*images); },
          [&](const std::shared_ptr<const HistogramRecord>& spread) {
            sink.write_histogram(*spread);
          },
          [&](const Progress& progress) { sink.progress(progress); },
          [&](const Flush&) { sink.flush(); }, [&](const RunEnd& end) { sink.run_end(end); },
          [&](const RunInfo& info) { sink.open(info); }, [](const Stop&) {}},
      item);
}

void SinkThread::wake() { shared_->changed.notify_all(); }

void SinkThread::wait(double deadline, bool patient) {
  wake();
  std::unique_lock lock(shared_->mutex);
  const auto done = [&] { return shared_->unfinished == 0; };
  if (behind_ && !shared_->caught_up && !patient && !done()) return;
  const auto time = std::chrono::duration<double>(deadline - steady_seconds());
  behind_ = !shared_->changed.wait_for(lock, time, done);
  shared_->caught_up = !behind_;
  const auto refusal = std::exchange(shared_->refusal, nullptr);
  lock.unlock();
  if (refusal) std::rethrow_exception(refusal);
  if (behind_ && !std::exchange(warned_, true))
    log::warn(shared_->name + ": does not keep up (a slow disk, a program that hangs?); " +
              "training goes on");
}

void SinkThread::Shared::serve() {
  ::pthread_setname_np(::pthread_self(), "logger");
  for (bool last = false; !last;) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !waiting.empty(); });
    const Item item = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    handle(item);
    last = std::holds_alternative<Stop>(item);
    lock.lock();
    bytes -= bytes_of(item);
    if (--unfinished == 0) {
      caught_up = true;
      changed.notify_all();
    }
  }
}

void SinkThread::Shared::handle(const Item& item) {
  if (const auto* info = std::get_if<RunInfo>(&item)) {
    unopened = *info;
    return open(false);
  }
  while (unopened && !gave_up) open(/*last=*/!has_to_wait());
  if (unopened) {
    const std::lock_guard lock(mutex);
    missing += counts(item) ? 1 : 0;
    return;
  }
  const auto* const end = std::get_if<RunEnd>(&item);
  if (end != nullptr && !opened) return;
  if (end != nullptr) handle(Flush{});
  try {
    give(item, *sink);
  } catch (const std::exception& error) {
    if (end != nullptr)
      log::warn(name + ": " + error.what());
    else
      report(error);
  }
}

/// Pauses before the next attempt to open the sink; false if the run ends meanwhile.
bool SinkThread::Shared::has_to_wait() {
  std::unique_lock lock(mutex);
  return !changed.wait_for(lock, std::chrono::duration<double>(limits.reopen_seconds),
                           [this] { return ending; });
}

/// last: there is no further attempt.
void SinkThread::Shared::open(bool last) {
  gave_up = last;
  try {
    sink->open(*unopened);
    unopened.reset(), opened = true;
  } catch (const UserError&) {
    const std::lock_guard lock(mutex);
    refusal = std::current_exception();
    gave_up = true;
  } catch (const std::exception& error) {
    report(error);
  }
}

void SinkThread::Shared::report(const std::exception& error) {
  if (std::exchange(reported, true)) return;
  log::warn(name + ": " + error.what() + "; training goes on");
}

}  // namespace composer
