#include "cli/job_watch.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace composer {
namespace {

constexpr const char *starts_key = "composer/starts", *over_key = "composer/over",
                     *left_key = "composer/left";

constexpr int64_t most_starts = 1 << 20;
constexpr int most_status = 255;

constexpr auto between_questions = std::chrono::milliseconds(400);
/// A longer interval means that this process was suspended.
constexpr double most_between_reads = 1;
constexpr auto last_answer = std::chrono::seconds(1);

}  // namespace

void tell_starts(JobStore& store, int64_t starts) { store.set(starts_key, std::to_string(starts)); }

int64_t told_starts(JobStore& store) {
  return store.get_number(starts_key, 0, most_starts).value_or(0);
}

void tell_status(JobStore& store, int status) { store.set(over_key, std::to_string(status)); }

std::optional<int> told_status(JobStore& store) {
  const auto status = store.get_number(over_key, 1, most_status);
  return status ? std::optional(static_cast<int>(*status)) : std::nullopt;
}

void tell_left(JobStore& store) { store.add(left_key, 1); }

int64_t told_left(JobStore& store, int64_t machines) {
  return store.get_number(left_key, 0, machines - 1).value_or(0);
}

JobNews ask_for_news(JobStore& store) {
  return {told_run_folder(store), told_status(store), told_starts(store), told_saved(store)};
}

struct JobWatch::Heard {
  std::mutex mutex;  ///< guards all members
  std::condition_variable changed;
  JobNews news;
  int64_t answers = 0;
  std::exception_ptr problem;  ///< what `ask` threw last
  bool stop = false;           ///< true once the thread shall end
  bool ended = false;          ///< true once the thread has ended
};

JobWatch::JobWatch(JobStore store, std::function<JobNews(JobStore&)> ask, double silence_seconds)
    : heard_(std::make_shared<Heard>()),
      silence_seconds_(silence_seconds),
      read_at_(steady_seconds()) {
  thread_ = std::thread([heard = heard_, store = std::move(store), ask = std::move(ask)]() mutable {
    std::unique_lock lock(heard->mutex);
    while (!heard->stop && !heard->problem) {
      lock.unlock();
      std::optional<JobNews> news;
      std::exception_ptr problem;
      try {
        news = ask(store);
      } catch (const std::exception&) {
        problem = std::current_exception();
      }
      lock.lock();
      heard->problem = problem;
      if (news) heard->news = *news, ++heard->answers;
      heard->changed.wait_for(lock, between_questions, [&] { return heard->stop; });
    }
    heard->ended = true;
    heard->changed.notify_all();
  });
}

JobWatch::~JobWatch() {
  std::unique_lock lock(heard_->mutex);
  heard_->stop = true;
  heard_->changed.notify_all();
  const bool ended = heard_->changed.wait_for(lock, last_answer, [&] { return heard_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

JobNews JobWatch::news() {
  const std::lock_guard lock(heard_->mutex);
  const double now = steady_seconds();
  silent_ += std::min(now - std::exchange(read_at_, now), most_between_reads);
  if (std::exchange(answers_, heard_->answers) != heard_->answers) silent_ = 0;
  if (heard_->problem) std::rethrow_exception(heard_->problem);
  if (silent_ > silence_seconds_) throw RunError("the store where the ranks meet does not answer");
  return heard_->news;
}

}  // namespace composer
