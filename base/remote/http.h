// Exchanges with servers over HTTP, by libcurl.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace composer {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string userinfo;           ///< user:password, as in a URL; empty for none
  std::span<const uint8_t> body;  ///< of PUT and POST
  /// Where the body of an answer goes that is exactly so long and has status 206 or 200. Of another
  /// 200 nothing is read. Empty: the body goes to HttpReply::body.
  std::span<uint8_t> into;
  bool follow_redirects = false;
  bool fresh_connection = false;  ///< and the host's address asked again
  bool through_proxy = true;      ///< where the environment names one
  double connect_seconds = 10;
  double quiet_seconds = 30;  ///< of silence, or of less than 1 KB a second
  /// The same after a signal (base/process/interrupt.h), where that is less.
  double quiet_seconds_after_signal = 5;
  double total_seconds = 0;  ///< 0: as long as bytes come
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< of the last answer; names in lower case
  std::string body;
  size_t received = 0;  ///< bytes put into HttpRequest::into

  /// Empty where the answer has no such header.
  const std::string& header(const std::string& name) const;
  bool succeeded() const { return status >= 200 && status < 300; }
};

/// No whole answer came.
class HttpFailure : public std::runtime_error {
 public:
  enum class Kind {
    unknown_host,
    no_connection,
    not_trusted,  ///< TLS: certificates
    interrupted,  ///< by the user, or by LeaveWhen
    other,        ///< broken or silent connections, bodies that end too early
  };
  HttpFailure(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// Keeps connections, each of which serves any thread.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();

  /// Waits for the answer. After `hedge_after` seconds without a whole one the request is sent once
  /// more on another connection, if may_hedge() allows it then (null: it does), and the first whole
  /// answer below status 500 counts. Waits before that while as many exchanges are under way as the
  /// process may have files open for. Throws HttpFailure.
  HttpReply exchange(const HttpRequest& request, std::optional<double> hedge_after = std::nullopt,
                     const std::function<bool()>& may_hedge = nullptr);

 private:
  class Channel;
  class Slot;

  std::unique_ptr<Channel> take();
  void give(std::unique_ptr<Channel> channel);

  std::shared_ptr<void> names_;  ///< addresses and TLS sessions, which all connections share
  const size_t most_;            ///< exchanges at a time
  std::mutex mutex_;
  std::condition_variable left_;  ///< an exchange has ended
  size_t out_ = 0;                ///< exchanges under way
  std::vector<std::unique_ptr<Channel>> idle_;
};

/// The client that all of a process share.
HttpClient& http_client();

}  // namespace composer
