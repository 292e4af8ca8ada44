// Requests to a store, which are repeated after transient failures.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/remote/http.h"
#include "base/remote/object_store.h"

namespace composer {

/// How often and how long requests are repeated. The first wait is first_wait seconds, and each
/// wait is twice the one before; a random part, up to a half, is subtracted from each.
struct Patience {
  int tries = 12;
  int tries_at_first = 4;  ///< while the server has never answered
  double first_wait = 0.2, longest_wait = 20;
  /// Seconds for which requests are repeated after a signal; half of that is the longest silence.
  /// The time of reads counts from the signal, that of other requests from their first try after
  /// it. Infinity: a signal changes nothing.
  double after_signal = 10;
};

/// How long a store's recent reads took, and so after how long a read takes too long. Functions may
/// be called by several threads at once.
class ReadTimes {
 public:
  static constexpr uint64_t kMostBytes = 16 << 20;  ///< larger reads are not sent a second time

  /// The seconds after which a read of that size is sent a second time, if take_allowance() allows
  /// it: much more than the 95th percentile of similar reads. Nothing while too few reads are
  /// known.
  std::optional<double> limit(uint64_t bytes);
  /// Whether a read may be sent a second time now; if so, counts it. One read in twenty may.
  bool take_allowance();
  void add(uint64_t bytes, double seconds);

 private:
  struct Recent {
    std::vector<double> seconds;  ///< a ring buffer
    size_t next = 0;
  };
  Recent& like(uint64_t bytes);

  std::mutex mutex_;
  std::array<Recent, 3> recent_;
  double allowance_ = 1;  ///< the number of second requests that may be sent
};

/// Sends requests. Any thread may call its functions.
class StoreRequests {
 public:
  explicit StoreRequests(Patience patience) : patience_(patience) {}

  struct Call {
    std::string text;                      ///< the object's path, for messages
    std::function<HttpRequest()> request;  ///< made anew for each try
    /// Whether another try may succeed after this answer. Null: never. After the statuses 429, 500,
    /// 502, 503 and 504 another try is always made.
    std::function<bool(const HttpReply&)> may_pass;
    bool is_read = false;  ///< true: sent a second time when slower than similar reads (ReadTimes)
  };
  /// The store's answer, of any status that is not transient. RunError when none comes, UserError
  /// when the server has never answered or cannot be trusted.
  HttpReply send(const Call& call);

 private:
  /// Waits. Returns early at a signal, unless `signalled`, and for LeaveWhen.
  static void wait(double seconds, bool signalled);
  void warn(const Call& call, const std::string& problem);

  const Patience patience_;
  std::atomic<bool> answered_ = false;
  std::atomic<int64_t> next_warning_ = 0;  ///< steady_seconds()
  ReadTimes read_times_;
};

/// The answer's status and the store's message: "503 SlowDown: Please reduce your request rate".
std::string problem_text(const HttpReply& reply);

/// The value of ObjectInfo::etag for an answer: its ETag; an ETag without quotes becomes a weak
/// one, with which no request is sent. Without an ETag, the date of the last change, without
/// quotes.
std::string version_of(const HttpReply& reply);

/// Returns read(); adds the object's path to its RunError.
template <class Read>
auto of_object(const std::string& text, const Read& read) {
  try {
    return read();
  } catch (const RunError& error) {
    throw RunError(text + ": " + error.what());
  }
}

/// The object that an answer with Content-Length describes. text: the object's path, for RunError.
ObjectInfo described(const std::string& key, const std::string& text, const HttpReply& reply);

/// "bytes=0-99", for the header Range. RunError if the bytes lie behind the object's end.
std::string range_header(const std::string& text, const ObjectInfo& info, uint64_t begin,
                         uint64_t bytes);

/// RunError when the answer says that the object has changed since it was opened.
void refuse_changed(const std::string& text, const HttpReply& reply);

/// RunError unless the answer to a read of `bytes` bytes has exactly those of the object that
/// `info` describes.
void check_read(const std::string& text, const ObjectInfo& info, uint64_t begin, uint64_t bytes,
                const HttpReply& reply);

}  // namespace composer
