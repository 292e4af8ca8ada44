#include "tests/remote/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "base/remote/remote_path.h"
#include "base/text.h"

namespace composer::test {
namespace {

bool send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// Reads until `buffer` has `size` bytes; whether it has.
bool receive(int socket, std::string& buffer, size_t size) {
  char block[65536];
  while (buffer.size() < size) {
    const ssize_t got = ::recv(socket, block, sizeof block, 0);
    if (got <= 0) return false;
    buffer.append(block, static_cast<size_t>(got));
  }
  return true;
}

/// Reads the next request; false when the client has gone.
bool receive(int socket, std::string& buffer, ServerRequest& request) {
  size_t end;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
    if (!receive(socket, buffer, buffer.size() + 1)) return false;
  std::string head = buffer.substr(0, end);
  buffer.erase(0, end + 4);
  const size_t line_end = std::min(head.find("\r\n"), head.size());
  const std::string line = head.substr(0, line_end);
  const size_t first = line.find(' '), second = line.rfind(' ');
  request.method = line.substr(0, first);
  const std::string target = line.substr(first + 1, second - first - 1);
  const size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = target.substr(std::min(mark + 1, target.size()));
  for (size_t at = line_end; at < head.size();) {
    const size_t begin = at + 2;
    at = std::min(head.find("\r\n", begin), head.size());
    const std::string header = head.substr(begin, at - begin);
    const size_t colon = header.find(':');
    if (colon == std::string::npos) continue;
    size_t value = colon + 1;
    while (value < header.size() && header[value] == ' ') ++value;
    request.headers[lower_case(header.substr(0, colon))] = header.substr(value);
  }
  const auto length = request.headers.find("content-length");
  if (length == request.headers.end()) return true;
  const size_t bytes = std::stoul(length->second);
  if (!receive(socket, buffer, bytes)) return false;
  request.body = buffer.substr(0, bytes);
  buffer.erase(0, bytes);
  return true;
}

}  // namespace

bool ServerRequest::has_parameter(const std::string& name) const {
  return ("&" + query + "&").find("&" + name + "=") != std::string::npos;
}

std::string ServerRequest::parameter(const std::string& name) const {
  const std::string all = "&" + query + "&";
  const size_t at = all.find("&" + name + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return percent_decoded(all.substr(begin, all.find('&', begin) - begin));
}

Listener::Listener(Serve serve) : serve_(std::move(serve)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 128) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port for a test's server");
  port_ = ntohs(address.sin_port);
  accepting_ = std::jthread([this] { accept_all(); });
}

Listener::~Listener() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  connections_.clear();
  ::close(listener_);
}

void Listener::accept_all() {
  for (int number = 0;; ++number) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      if (socket >= 0) ::close(socket);
      return;
    }
    if (socket < 0) continue;
    sockets_.push_back(socket);
    connections_.emplace_back([this, socket, number] {
      serve_(socket, number);
      const std::lock_guard guard(mutex_);
      sockets_.remove(socket);
      ::close(socket);
    });
  }
}

HttpServer::HttpServer(Handler handler)
    : handler_(std::move(handler)),
      listener_([this](int socket, int connection) { serve(socket, connection); }) {}

std::string HttpServer::host() const { return "127.0.0.1:" + std::to_string(port()); }
std::string HttpServer::url() const { return "http://" + host(); }

std::vector<ServerRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

bool HttpServer::wait_for_requests(size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10),
                           [&] { return requests_.size() >= count; });
}

void HttpServer::serve(int socket, int connection) {
  std::string buffer;
  ServerRequest request;
  request.connection = connection;
  while (receive(socket, buffer, request)) {
    {
      const std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size());
      requests_.push_back(request);
    }
    changed_.notify_all();
    const ServerReply reply = handler_(request);
    if (reply.no_answer) break;
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Said\r\n";
    bool length = reply.no_length;
    for (const auto& [name, value] : reply.headers) {
      head += name + ": " + value + "\r\n";
      length = length || lower_case(name) == "content-length";
    }
    if (!length) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    const bool cut = reply.cut_after < reply.body.size();
    if (!send_all(socket, head + "\r\n")) break;
    if (request.method != "HEAD" && !send_all(socket, reply.body.substr(0, reply.cut_after))) break;
    if (cut || reply.no_length) break;
    request = {};
    request.connection = connection;
  }
}

ServerReply ranged_reply(const ServerRequest& request, const std::string& content,
                         const std::string& etag) {
  ServerReply reply{.body = content};
  if (!etag.empty()) reply.headers.emplace_back("ETag", etag);
  if (const auto match = request.headers.find("if-match");
      match != request.headers.end() && match->second != etag)
    return {.status = 412};
  if (request.method == "HEAD")
    reply.headers.emplace_back("Content-Length", std::to_string(content.size()));
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) return reply;
  const std::string text = range->second.substr(6);
  const size_t begin = std::stoul(text), last = std::stoul(text.substr(text.find('-') + 1));
  if (begin >= content.size())
    return {.status = 416,
            .headers = {{"Content-Range", "bytes */" + std::to_string(content.size())}}};
  const size_t end = std::min(last + 1, content.size());
  reply.status = 206;
  reply.headers.emplace_back("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                                  std::to_string(end - 1) + "/" +
                                                  std::to_string(content.size()));
  reply.body = content.substr(begin, end - begin);
  return reply;
}

}  // namespace composer::test
