// HTTP exchanges, by libcurl.
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
  std::span<const uint8_t> body;  ///< the body of PUT and POST
  /// The buffer for the body of an answer of status 206 or 200, which must be exactly as long. The
  /// body of a 200 of another length is not read. Empty: the body goes to HttpReply::body.
  std::span<uint8_t> into;
  bool follow_redirects = false;
  bool fresh_connection = false;  ///< true: also looks up the host's address anew
  bool through_proxy = true;      ///< true: by the proxy that the environment names, if any
  double connect_seconds = 10;
  double quiet_seconds = 30;  ///< the longest silence, or time below 1 KB per second
  /// The longest silence after a signal (base/process/interrupt.h), if less.
  double quiet_seconds_after_signal = 5;
  double total_seconds = 0;  ///< the longest time of the exchange; 0: no limit while bytes come
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< the last answer's; names in lower case
  std::string body;
  size_t received = 0;  ///< bytes written to HttpRequest::into

  /// A header's value; empty without it.
  const std::string& header(const std::string& name) const;
  bool succeeded() const { return status >= 200 && status < 300; }
};

/// The exchange failed without a whole answer.
class HttpFailure : public std::runtime_error {
 public:
  enum class Kind {
    unknown_host,
    no_connection,
    not_trusted,  ///< TLS: certificates
    interrupted,  ///< by a signal, or by LeaveWhen
    other,        ///< broken or silent connections, bodies that end too early
  };
  HttpFailure(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// A pool of connections for all threads.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();

  /// Sends the request and waits for the answer. After `hedge_after` seconds without a whole answer
  /// the request is sent again on a second connection, if may_hedge() allows it (null: always), and
  /// the first whole answer below status 500 counts. Waits first while as many exchanges run as the
  /// limit of open files allows. Throws HttpFailure.
  HttpReply exchange(const HttpRequest& request, std::optional<double> hedge_after = std::nullopt,
                     const std::function<bool()>& may_hedge = nullptr);

 private:
  class Channel;
  class Slot;

  std::unique_ptr<Channel> take();
  void give(std::unique_ptr<Channel> channel);

  std::shared_ptr<void> names_;  ///< addresses and TLS sessions, which all connections share
  const size_t most_;            ///< the most exchanges at a time
  std::mutex mutex_;
  std::condition_variable left_;  ///< signalled when an exchange ends
  size_t out_ = 0;                ///< the number of running exchanges
  std::vector<std::unique_ptr<Channel>> idle_;
};

/// The client that all threads of a process share.
HttpClient& http_client();

}  // namespace composer
