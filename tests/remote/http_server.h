// A web server for tests: what it answers is a function of theirs.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace composer::test {

struct ServerRequest {
  std::string method;
  std::string path;                            ///< as sent, without the query
  std::string query;                           ///< as sent, without '?'
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  int connection = 0;  ///< which one since the server began
  int number = 0;      ///< which request since the server began

  /// Of the query, decoded; empty where it is missing.
  std::string parameter(const std::string& name) const;
  bool has_parameter(const std::string& name) const;
};

struct ServerReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< beside Content-Length
  std::string body = {};
  size_t cut_after = std::string::npos;  ///< so many bytes of the body, then the connection breaks
  bool no_answer = false;                ///< the connection breaks at once
  bool no_length = false;                ///< the body ends with the connection
};

/// Listens on 127.0.0.1, with a thread for each connection.
class Listener {
 public:
  /// Of a connection, the n-th since the listener began; the socket is closed after it.
  using Serve = std::function<void(int socket, int number)>;

  explicit Listener(Serve serve);
  /// Ends all connections, and waits for their threads.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

 private:
  void accept_all();

  const Serve serve_;
  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  bool stopping_ = false;
  std::list<int> sockets_;
  std::vector<std::jthread> connections_;
  std::jthread accepting_;
};

class HttpServer {
 public:
  using Handler = std::function<ServerReply(const ServerRequest&)>;

  /// Listens on 127.0.0.1. Each connection calls the handler in a thread of its own.
  explicit HttpServer(Handler handler);

  /// http://127.0.0.1:PORT
  std::string url() const;
  std::string host() const;
  int port() const { return listener_.port(); }
  std::vector<ServerRequest> requests() const;
  /// Waits until so many requests came, for ten seconds at most; whether they did.
  bool wait_for_requests(size_t count) const;

 private:
  void serve(int socket, int connection);

  Handler handler_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<ServerRequest> requests_;
  Listener listener_;  ///< whose threads use what stands before it
};

/// What a server that can answer ranges says to a GET or HEAD of a file.
ServerReply ranged_reply(const ServerRequest& request, const std::string& content,
                         const std::string& etag);

}  // namespace composer::test
