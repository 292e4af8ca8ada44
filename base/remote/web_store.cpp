#include "base/remote/web_store.h"

#include "base/error.h"
#include "base/remote/store_reply.h"

namespace composer {

WebStore::WebStore(const RemotePath& path, Patience patience)
    : server_(path.with_key("")), requests_(patience) {}

std::string WebStore::text(const std::string& key) const { return server_.with_key(key).text(); }

HttpReply WebStore::send(const std::string& method, const std::string& key,
                         const std::vector<std::pair<std::string, std::string>>& headers,
                         std::span<uint8_t> into) {
  HttpRequest request;
  request.method = method;
  request.url = server_.text() + key;
  request.userinfo = server_.userinfo();
  request.headers = headers;
  request.into = into;
  request.follow_redirects = true;
  return requests_.send({.text = text(key),
                         .request = [&] { return request; },
                         .may_pass = nullptr,
                         .is_read = !into.empty()});
}

void WebStore::refuse(const std::string& method, const std::string& key, const HttpReply& reply) {
  const std::string status = problem_text(reply);
  switch (reply.status) {
    case 401:
    case 403:
    case 407:
      throw UserError(text(key) + ": the server refuses " + method + " (" + status +
                      "): the URL needs a user and password (user:password@ before the host), "
                      "or a signature that has not expired");
    case 404:
    case 410:
      throw UserError(text(key) + ": there is no such file (" + status + ")");
    default:
      if (reply.status < 500)
        throw UserError(text(key) + ": the server refuses " + method + " (" + status + ")");
      throw RunError(text(key) + ": the server answers " + method + " with " + status);
  }
}

std::optional<ObjectInfo> WebStore::stat(const std::string& key) {
  const HttpReply reply = send("HEAD", key, {}, {});
  if (reply.status == 404 || reply.status == 410) return std::nullopt;
  if (reply.status != 200 || reply.header("content-length").empty()) return stat_by_read(key);
  return described(key, text(key), reply);
}

std::optional<ObjectInfo> WebStore::stat_by_read(const std::string& key) {
  std::array<uint8_t, 1> first{};
  const HttpReply reply = send("GET", key, {{"Range", "bytes=0-0"}}, first);
  if (reply.status == 404 || reply.status == 410) return std::nullopt;
  if (reply.status == 206) {
    const ContentRange range =
        of_object(text(key), [&] { return read_content_range(reply.header("content-range")); });
    if (!range.whole) throw UserError(text(key) + ": the server does not tell how long it is");
    return ObjectInfo{key, *range.whole, version_of(reply)};
  }
  // An empty file has no first byte.
  if (reply.status == 416 && reply.header("content-range") == "bytes */0")
    return ObjectInfo{key, 0, version_of(reply)};
  if (reply.status != 200) refuse("GET", key, reply);
  if (reply.header("content-length").empty())
    throw UserError(text(key) + ": the server does not tell how long it is");
  return described(key, text(key), reply);
}

void WebStore::read(const ObjectInfo& info, uint64_t begin, std::span<uint8_t> into) {
  if (into.empty()) return;
  const std::string path = text(info.key);
  std::vector<std::pair<std::string, std::string>> headers{
      {"Range", range_header(path, info, begin, into.size())}};
  if (info.etag.starts_with('"')) {
    headers.emplace_back("If-Match", info.etag);
  } else if (!info.etag.empty() && !info.etag.starts_with("W/")) {
    headers.emplace_back("If-Unmodified-Since", info.etag);
  }
  const HttpReply reply = send("GET", info.key, headers, into);
  refuse_changed(path, reply);
  if (!reply.succeeded()) refuse("GET", info.key, reply);
  check_read(path, info, begin, into.size(), reply);
}

void WebStore::refuse_listing(const std::string& prefix) {
  throw UserError(text(prefix) +
                  ": web servers do not list what they have; name a file, or use s3://");
}

void WebStore::refuse_writing(const std::string& key) {
  throw UserError(text(key) + ": a web server is read only; s3://bucket/key can be written");
}

std::vector<ObjectInfo> WebStore::list(const std::string& prefix) { refuse_listing(prefix); }
std::vector<std::string> WebStore::list_folder(const std::string& prefix) {
  refuse_listing(prefix);
}
void WebStore::write(const std::string& key, const std::filesystem::path&) { refuse_writing(key); }
void WebStore::write(const std::string& key, std::span<const uint8_t>) { refuse_writing(key); }
void WebStore::remove(const std::string& key) { refuse_writing(key); }

}  // namespace composer
