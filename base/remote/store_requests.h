// Requests to one store, repeated while what went wrong may pass.
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

/// A request is repeated after first_wait seconds, then after twice as long, and so on, each time a
/// random part of a half less.
struct Patience {
  int tries = 12;
  int tries_at_first = 4;  ///< while the server has never answered
  double first_wait = 0.2, longest_wait = 20;
  /// Seconds for which requests are repeated after a signal, half of them in silence; reads: since
  /// it came. Infinity: a signal changes nothing.
  double after_signal = 10;
};

/// How long a store's recent reads took, and so after how long a read takes too long. Functions may
/// be called by several threads at once.
class ReadTimes {
 public:
  static constexpr uint64_t kMostBytes = 16 << 20;  ///< larger reads are not sent a second time

  /// After so many seconds a read of that size is to be sent a second time, where an allowance is
  /// to be had then: much later than 95 of 100 like it were whole. Nothing while too few are known.
  std::optional<double> limit(uint64_t bytes);
  /// Whether a read may be sent a second time now, which then counts as done: one in twenty may.
  bool take_allowance();
  void add(uint64_t bytes, double seconds);

 private:
  struct Recent {
    std::vector<double> seconds;  ///< a ring
    size_t next = 0;
  };
  Recent& like(uint64_t bytes);

  std::mutex mutex_;
  std::array<Recent, 3> recent_;
  double allowance_ = 1;  ///< second requests that may be sent
};

/// Any thread may call any of these.
class StoreRequests {
 public:
  explicit StoreRequests(Patience patience) : patience_(patience) {}

  struct Call {
    std::string text;                      ///< for messages: the object's path
    std::function<HttpRequest()> request;  ///< made anew for each try
    /// Whether another try may fare better than this answer; those of statuses 429, 500, 502, 503
    /// and 504 always may. Null: never.
    std::function<bool(const HttpReply&)> may_pass;
    bool is_read = false;  ///< sent a second time where reads like it are faster (ReadTimes)
  };
  /// The store's answer, of any status that does not pass. RunError where none comes, UserError
  /// where the server was never there, or is not to be trusted.
  HttpReply send(const Call& call);

 private:
  /// Returns early at a signal, unless that is known already, and for LeaveWhen.
  static void wait(double seconds, bool signalled);
  void warn(const Call& call, const std::string& problem);

  const Patience patience_;
  std::atomic<bool> answered_ = false;
  std::atomic<int64_t> next_warning_ = 0;  ///< seconds of the steady clock
  ReadTimes read_times_;
};

/// "503 SlowDown: Please reduce your request rate", of the answer's status and the store's words.
std::string problem_text(const HttpReply& reply);

/// Of an answer, for ObjectInfo::etag: the ETag; one that has no quotes as a weak one, with which
/// no request is sent. Where there is none, the date of the last change, without quotes.
std::string version_of(const HttpReply& reply);

/// Returns read(), whose RunError then names the object.
template <class Read>
auto of_object(const std::string& text, const Read& read) {
  try {
    return read();
  } catch (const RunError& error) {
    throw RunError(text + ": " + error.what());
  }
}

/// What an answer with the object's length in its header says. text: the object's path, for
/// RunError.
ObjectInfo described(const std::string& key, const std::string& text, const HttpReply& reply);

/// "bytes=0-99", for the header Range. RunError where the bytes lie behind the object's end.
std::string range_header(const std::string& text, const ObjectInfo& info, uint64_t begin,
                     uint64_t bytes);

/// RunError where the answer says that the object is no longer the one that was opened.
void refuse_changed(const std::string& text, const HttpReply& reply);

/// RunError unless the answer to a read of `bytes` bytes has exactly those of the object that
/// `info` describes.
void check_read(const std::string& text, const ObjectInfo& info, uint64_t begin, uint64_t bytes,
                const HttpReply& reply);

}  // namespace composer
