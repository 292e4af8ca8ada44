// An S3-compatible store in memory, which takes any signature.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/remote/http_server.h"

namespace composer::test {

/// One bucket, in the path of its URL.
class MemoryStore {
 public:
  explicit MemoryStore(std::string bucket = "bucket");

  /// For AWS_ENDPOINT_URL.
  std::string url() const { return server_.url(); }
  HttpServer& server() { return server_; }

  void put(const std::string& key, const std::string& content);
  std::optional<std::string> get(const std::string& key) const;
  void remove(const std::string& key);
  std::vector<std::string> keys() const;
  /// Uploads in parts that were begun and neither completed nor aborted.
  size_t open_uploads() const;

  /// Asked before each request is served; what it gives is answered instead. Called by any thread.
  void set_interference(
      std::function<std::optional<ServerReply>(const ServerRequest&)> interference);
  size_t page_keys = 1000;  ///< of a listing's pages

 private:
  ServerReply answer(const ServerRequest& request);
  ServerReply list(const ServerRequest& request) const;

  const std::string bucket_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::map<int, std::string>> uploads_;
  int begun_ = 0;
  std::function<std::optional<ServerReply>(const ServerRequest&)> interference_;
  HttpServer server_;
};

/// <Error> as S3 writes it.
ServerReply error_reply(int status, const std::string& code, const std::string& message,
                        const std::string& more = "");

}  // namespace composer::test
