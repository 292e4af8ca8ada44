#include "base/remote/store_requests.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "base/remote/leaving.h"
#include "base/remote/store_reply.h"

namespace composer {
namespace {

constexpr double kLongestAskedWait = 60;  ///< seconds, of Retry-After
constexpr size_t kKept = 100, kEnough = 20;
constexpr double kShare = 0.05, kMostAllowance = 8;
constexpr double kFactor = 2, kAtLeast = 0.05;
constexpr uint64_t kTiny = 64 << 10, kSmall = 1 << 20;
constexpr int kTriesBeforeWarning = 4;
constexpr int64_t kSecondsBetweenWarnings = 60;

/// Uniform in [0, 1), and different in each process, so that requests that failed together are not
/// repeated together.
double random_part() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>{}(generator);
}

bool passes(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

/// The steady_seconds() at which this process saw the signal; nothing before a signal.
std::optional<double> signal_time() {
  static std::mutex mutex;
  static bool is_seen = false;
  static double seen;
  const std::lock_guard lock(mutex);
  const bool was_seen = std::exchange(is_seen, received_signal() != 0);
  if (!is_seen) return std::nullopt;
  if (!was_seen) seen = steady_seconds();
  return seen;
}

[[noreturn]] void fail(const std::string& text, const HttpFailure& failure, bool answered,
                       int tries) {
  const std::string what = failure.what();
  switch (failure.kind()) {
    case HttpFailure::Kind::interrupted:
      throw RunError(text + ": " + what);
    case HttpFailure::Kind::not_trusted:
      throw UserError(text + ": the server is not to be trusted: " + what +
                      "; AWS_CA_BUNDLE names a file of certificates to trust");
    case HttpFailure::Kind::unknown_host:
      if (!answered) throw UserError(text + ": there is no such host: " + what);
      break;
    case HttpFailure::Kind::no_connection:
      if (!answered) throw UserError(text + ": no server answers: " + what);
      break;
    case HttpFailure::Kind::other:
      break;
  }
  throw RunError(text + ": no whole answer came in " + std::to_string(tries) + " tries: " + what);
}

}  // namespace

ReadTimes::Recent& ReadTimes::like(uint64_t bytes) {
  return recent_[bytes <= kTiny ? 0 : bytes <= kSmall ? 1 : 2];
}

std::optional<double> ReadTimes::limit(uint64_t bytes) {
  if (bytes > kMostBytes) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto& seconds = like(bytes).seconds;
  if (seconds.size() < kEnough) return std::nullopt;
  auto sorted = seconds;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::nth_element(sorted.begin(), at, sorted.end());
  return kFactor * *at + kAtLeast;
}

bool ReadTimes::take_allowance() {
  const std::lock_guard lock(mutex_);
  if (allowance_ < 1) return false;
  --allowance_;
  return true;
}

void ReadTimes::add(uint64_t bytes, double seconds) {
  if (bytes > kMostBytes) return;
  const std::lock_guard lock(mutex_);
  Recent& recent = like(bytes);
  if (recent.seconds.size() < kKept) {
    recent.seconds.push_back(seconds);
  } else {
    recent.seconds[recent.next] = seconds;
    recent.next = (recent.next + 1) % kKept;
  }
  allowance_ = std::min(allowance_ + kShare, kMostAllowance);
}

std::string problem_text(const HttpReply& reply) {
  std::string text = std::to_string(reply.status);
  const StoreProblem problem = read_problem(reply.body);
  if (!problem.code.empty()) text += " " + problem.code;
  if (!problem.message.empty()) text += ": " + problem.message;
  return text;
}

std::string version_of(const HttpReply& reply) {
  const std::string& etag = reply.header("etag");
  if (etag.empty()) return reply.header("last-modified");
  return etag.starts_with('"') || etag.starts_with("W/") ? etag : "W/\"" + etag + "\"";
}

ObjectInfo described(const std::string& key, const std::string& text, const HttpReply& reply) {
  const uint64_t bytes =
      of_object(text, [&] { return read_length(reply.header("content-length")); });
  return {key, bytes, version_of(reply)};
}

std::string range_header(const std::string& text, const ObjectInfo& info, uint64_t begin,
                         uint64_t bytes) {
  if (begin > info.bytes || bytes > info.bytes - begin)
    throw RunError(text + ": bytes behind its end are asked for");
  return "bytes=" + std::to_string(begin) + "-" + std::to_string(begin + bytes - 1);
}

void refuse_changed(const std::string& text, const HttpReply& reply) {
  if (reply.status == 412 || reply.status == 416)
    throw RunError(text + ": it has changed since it was opened (" + problem_text(reply) + ")");
}

void check_read(const std::string& text, const ObjectInfo& info, uint64_t begin, uint64_t bytes,
                const HttpReply& reply) {
  const auto strong = [](const std::string& etag) {
    return etag.starts_with("W/") ? etag.substr(2) : etag;
  };
  const std::string version = version_of(reply);
  if (!info.etag.empty() && !version.empty() && strong(version) != strong(info.etag))
    throw RunError(text + ": it has changed since it was opened (its version was " + info.etag +
                   " and is " + version + ")");
  if (reply.status == 206) {
    const ContentRange range =
        of_object(text, [&] { return read_content_range(reply.header("content-range")); });
    if (range.whole && *range.whole != info.bytes)
      throw RunError(text + ": it has changed since it was opened (it had " +
                     std::to_string(info.bytes) + " bytes and has " + std::to_string(*range.whole) +
                     ")");
    if (range.begin != begin || range.end != begin + bytes)
      throw RunError(text + ": the server answers other bytes than it was asked for (" +
                     reply.header("content-range") + ")");
  } else if (begin != 0 || bytes != info.bytes) {
    throw UserError(text + ": the server cannot answer ranges of bytes (it answers " +
                    std::to_string(reply.status) +
                    " and the whole); copy the file to a disk or a store that can");
  }
  if (reply.received != bytes)
    throw RunError(text + ": " + std::to_string(reply.received) + " bytes came instead of " +
                   std::to_string(bytes));
}

HttpReply StoreRequests::send(const Call& call) {
  std::optional<double> signalled;
  for (int tries = 1;; ++tries) {
    // A request that begins after the signal, to write a checkpoint for instance, has its own time.
    if (call.is_read)
      signalled = signal_time();
    else if (received_signal() != 0 && !signalled)
      signalled = steady_seconds();
    const double left = signalled ? patience_.after_signal - (steady_seconds() - *signalled)
                                  : std::numeric_limits<double>::infinity();
    if (LeaveWhen::asked()) throw RunError(call.text + ": nobody waits for it any more");
    HttpRequest request = call.request();
    request.fresh_connection = tries > 1;
    request.quiet_seconds_after_signal = patience_.after_signal / 2;
    const uint64_t bytes = request.into.size();
    const double begin = steady_seconds();
    std::string problem;
    double asked_wait = 0;
    try {
      const auto hedge = call.is_read ? read_times_.limit(bytes) : std::nullopt;
      auto reply =
          http_client().exchange(request, hedge, [this] { return read_times_.take_allowance(); });
      answered_ = true;
      const bool again = passes(reply.status) || (call.may_pass && call.may_pass(reply));
      if (!again) {
        if (call.is_read && reply.received > 0) read_times_.add(bytes, steady_seconds() - begin);
        return reply;
      }
      problem = problem_text(reply);
      if (tries >= patience_.tries || left <= 0)
        throw RunError(call.text + ": the store answers " + problem + " (" + std::to_string(tries) +
                       " tries)");
      asked_wait = read_retry_after(reply.header("retry-after"), std::time(nullptr));
    } catch (const HttpFailure& failure) {
      const bool may_pass = failure.kind() != HttpFailure::Kind::not_trusted &&
                            failure.kind() != HttpFailure::Kind::interrupted;
      const int most = answered_ ? patience_.tries : patience_.tries_at_first;
      if (!may_pass || left <= 0 || tries >= most) fail(call.text, failure, answered_, tries);
      problem = failure.what();
    }
    if (tries >= kTriesBeforeWarning) warn(call, problem);
    const double longest =
        std::min(patience_.first_wait * std::pow(2, tries - 1), patience_.longest_wait);
    const double seconds =
        std::max(std::min(asked_wait, kLongestAskedWait), longest * (1 - random_part() / 2));
    wait(std::min(seconds, left), signalled.has_value());
  }
}

void StoreRequests::warn(const Call& call, const std::string& problem) {
  const auto now = static_cast<int64_t>(steady_seconds());
  int64_t next = next_warning_;
  if (now >= next && next_warning_.compare_exchange_strong(next, now + kSecondsBetweenWarnings))
    log::warn(call.text + ": " + problem + "; trying again");
}

void StoreRequests::wait(double seconds, bool signalled) {
  constexpr double kSlice = 0.05;
  const double begin = steady_seconds();
  for (double left; (left = begin + seconds - steady_seconds()) > 0;) {
    if ((!signalled && received_signal() != 0) || LeaveWhen::asked()) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
  }
}

}  // namespace composer
